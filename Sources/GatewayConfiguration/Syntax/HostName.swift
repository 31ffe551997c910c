/// Hosts in their one spelling: a DNS name in lower case, an IPv4 address, or an IPv6 address in brackets.
enum HostName {
    /// What all hosts fit, as a regular expression.
    static let pattern = "^([a-z0-9.-]+|\\[[0-9a-f:.]+\\])$"

    static func parse(_ text: String) throws(InvalidValue) -> String {
        if text.hasPrefix("[") { return try parseBracketed(text) }
        if let literal = IPLiteral(text) {
            guard !literal.isIPv6 else {
                throw InvalidValue("an IPv6 address is written in brackets", suggestion: "[\(literal.text)]")
            }
            return literal.text
        }
        if let colon = text.firstIndex(of: ":") {
            throw InvalidValue(
                "\(Printable.quoted(text)) is more than a host: no port, no scheme",
                suggestion: suggestion(without: colon, text))
        }
        return try parseName(text)
    }

    private static func parseBracketed(_ text: String) throws(InvalidValue) -> String {
        guard text.hasSuffix("]"), let literal = IPLiteral(String(text.dropFirst().dropLast())), literal.isIPv6 else {
            throw InvalidValue("\(Printable.quoted(text)) is not an IPv6 address in brackets")
        }
        // Requests are compared by text, so only the canonical spelling could ever match (RFC 5952).
        guard text == "[\(literal.text)]" else {
            throw InvalidValue("\(Printable.quoted(text)) has a shorter spelling", suggestion: "[\(literal.text)]")
        }
        return text
    }

    /// RFC 1123 section 2.1; the last label is not a number, so that no address is taken for a name.
    static func parseName(_ text: String) throws(InvalidValue) -> String {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        let isName = (1...253).contains(text.utf8.count) && labels.allSatisfy(isLabel)
        if !isName, text != text.lowercased(), (try? parseName(text.lowercased())) != nil {
            throw InvalidValue("\(Printable.quoted(text)) is not in lower case", suggestion: text.lowercased())
        }
        guard !text.contains("*") else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is not a host name: patterns are not supported, list each host")
        }
        guard !text.contains(where: { $0 == " " || $0 == "," }) else {
            throw InvalidValue("\(Printable.quoted(text)) is more than one host name")
        }
        guard isName, labels.last.map({ !$0.allSatisfy(\.isNumber) }) ?? false else {
            throw InvalidValue("\(Printable.quoted(text)) is not a host name")
        }
        return text
    }

    private static func isLabel(_ label: Substring) -> Bool {
        (1...63).contains(label.utf8.count) && !label.hasPrefix("-") && !label.hasSuffix("-")
            && label.utf8.allSatisfy(Name.isCharacter)
    }

    private static func suggestion(without colon: String.Index, _ text: String) -> String? {
        let host = String(text[..<colon])
        return Decimal.parse(text[text.index(after: colon)...]) != nil && !host.isEmpty ? host : nil
    }
}
