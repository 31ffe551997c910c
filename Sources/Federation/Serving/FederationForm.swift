internal import Encoding
internal import Vocabulary

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
        PercentEncoding.decode(text, plus: UInt8(ascii: " ")).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
