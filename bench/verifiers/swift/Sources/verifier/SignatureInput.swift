/// What Signature-Input says of the proof: RFC 9421 section 4.1, in the one form that a serialiser writes. Members of other labels
/// are refused.
struct SignatureInput {
    private(set) var components: [String] = []
    private(set) var created: Int64 = 0
    private(set) var expires: Int64?
    private(set) var keyID = ""
    private(set) var nonce = ""
    /// From the parenthesis on: the last line of the signature base.
    let parameters: String

    private static let label = "attest="
    private static let tag = "attestgate-request"

    init(_ field: String) throws(Refusal) {
        guard field.hasPrefix(Self.label) else { throw Refusal("proof_malformed") }
        parameters = String(field.dropFirst(Self.label.count))
        var rest = parameters.utf8[...]
        try readComponents(&rest)
        var seen: Set<String> = []
        while !rest.isEmpty {
            let name = try Self.readName(&rest)
            guard seen.insert(name).inserted else { throw Refusal("proof_malformed") }
            switch name {
            case "created": created = try Self.readNumber(&rest)
            case "expires": expires = try Self.readNumber(&rest)
            case "keyid": keyID = try Self.readString(&rest)
            case "nonce": nonce = try Self.readString(&rest)
            case "tag": guard try Self.readString(&rest) == Self.tag else { throw Refusal("proof_malformed") }
            case "alg": guard try Self.readString(&rest) == "apple-attest" else { throw Refusal("proof_malformed") }
            default: throw Refusal("proof_malformed")
            }
        }
        guard seen.isSuperset(of: ["created", "keyid", "nonce", "tag"]) else { throw Refusal("proof_malformed") }
    }

    private mutating func readComponents(_ rest: inout Substring.UTF8View) throws(Refusal) {
        try Self.skip("(", &rest)
        while true {
            let name = try Self.readString(&rest)
            guard !name.isEmpty, !components.contains(name) else { throw Refusal("proof_malformed") }
            components.append(name)
            if rest.first == UInt8(ascii: " ") { rest.removeFirst() } else { return try Self.skip(")", &rest) }
        }
    }

    private static func skip(_ character: Unicode.Scalar, _ rest: inout Substring.UTF8View) throws(Refusal) {
        guard rest.popFirst() == UInt8(ascii: character) else { throw Refusal("proof_malformed") }
    }

    private static func readName(_ rest: inout Substring.UTF8View) throws(Refusal) -> String {
        try skip(";", &rest)
        let name = rest.prefix { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
        rest = rest[name.endIndex...]
        try skip("=", &rest)
        return String(Substring(name))
    }

    /// Quotes and backslashes occur in no value that is good.
    private static func readString(_ rest: inout Substring.UTF8View) throws(Refusal) -> String {
        try skip("\"", &rest)
        let value = rest.prefix { (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        rest = rest[value.endIndex...]
        try skip("\"", &rest)
        return String(Substring(value))
    }

    private static func readNumber(_ rest: inout Substring.UTF8View) throws(Refusal) -> Int64 {
        let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        rest = rest[digits.endIndex...]
        guard digits.count <= 15, let number = Int64(Substring(digits)) else { throw Refusal("proof_malformed") }
        return number
    }
}
