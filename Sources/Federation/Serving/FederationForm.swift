internal import Encoding

/// The parameters of a request in `application/x-www-form-urlencoded` (RFC 6749 appendix B).
package struct FederationForm: Equatable {
    private let parameters: [String: String]

    /// The maximum of parameters.
    private static let limit = 32

    /// Parses content. Empty values count as missing, and a repeated name is refused (RFC 6749 section 3.1).
    package init(_ content: [UInt8]) throws(FederationFault) {
        var parameters: [String: String] = [:]
        let parts = content.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: true)
        guard parts.count <= Self.limit else { throw .invalidRequest("there are too many parameters") }
        for part in parts {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(pair[0]), let value = Self.decode(pair.count > 1 ? pair[1] : []) else {
                throw .invalidRequest("the content is not a form in UTF-8")
            }
            guard !value.isEmpty else { continue }
            guard parameters.updateValue(value, forKey: name) == nil else {
                throw .invalidRequest("a parameter occurs twice")
            }
        }
        self.parameters = parameters
    }

    package subscript(_ name: String) -> String? { parameters[name] }

    func required(_ name: String) throws(FederationFault) -> String {
        guard let value = parameters[name] else { throw .invalidRequest("\(name) is missing") }
        return value
    }

    /// Decodes percent encodings and plus signs.
    ///
    /// - Returns: nil for an incomplete encoding, or other text than UTF-8.
    static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var place = text.startIndex
        while place < text.endIndex {
            switch text[place] {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard place + 2 < text.endIndex, let high = Hexadecimal.value(text[place + 1]),
                    let low = Hexadecimal.value(text[place + 2])
                else { return nil }
                bytes.append(high << 4 | low)
                place += 2
            default: bytes.append(text[place])
            }
            place += 1
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
