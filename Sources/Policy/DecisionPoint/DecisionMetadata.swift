internal import Encoding

/// The metadata of a decision point (AuthZEN section 9).
public enum DecisionMetadata {
    private static let wellKnown = "/.well-known/authzen-configuration"
    private static let lengthLimit = 1024

    /// Returns the path of the metadata.
    ///
    /// - Parameter url: The URL of the decision point. A path in it follows the well-known one (RFC 8414 section 3.1).
    /// - Returns: nil unless it is an https URL without query and fragment: no metadata is read over http.
    public static func path(of url: String) -> String? {
        guard let url = ServiceURL(url), !url.rest.contains("?") else { return nil }
        return wellKnown + (url.rest == "/" ? "" : url.rest)
    }

    /// Parses the metadata of a decision point.
    ///
    /// - Parameter url: The URL of the decision point, which the metadata must name, byte by byte.
    /// - Returns: the path of its evaluation endpoint, with the query if there is one.
    public static func endpoint(
        status: UInt16, contentType: String?, content: Span<UInt8>, url: String
    ) -> Result<String, DecisionFault> {
        do throws(DecisionFault) {
            let metadata = try PolicyDecision.object(status: status, contentType: contentType, content: content)
            guard let own = ServiceURL(url), metadata["policy_decision_point"]?.spells(url) == true,
                let text = metadata["access_evaluation_endpoint"]?.text,
                let endpoint = ServiceURL(String(decoding: text, as: UTF8.self)), endpoint.origin == own.origin,
                !endpoint.rest.isEmpty
            else { throw .metadata }
            return .success(endpoint.rest)
        } catch {
            return .failure(error)
        }
    }

    /// An https URL without a user and a fragment.
    private struct ServiceURL {
        /// Host and port.
        let origin: String
        /// Path and query. Empty, or with a slash at the beginning.
        let rest: String

        init?(_ text: String) {
            let scheme = "https://"
            let bytes = Array(text.utf8)
            let excluded = Set("#\"<>\\^`{|}".utf8)
            guard bytes.count <= lengthLimit,
                bytes.prefix(scheme.utf8.count).map({ $0 | 0x20 }) == scheme.utf8.map({ $0 | 0x20 }),
                bytes.allSatisfy({ (0x21...0x7e).contains($0) && !excluded.contains($0) })
            else { return nil }
            let parts = bytes.dropFirst(scheme.utf8.count)
            let end = parts.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? parts.endIndex
            let authority = String(decoding: parts[..<end], as: UTF8.self).lowercased()
            let rest = String(decoding: parts[end...], as: UTF8.self)
            guard !authority.isEmpty, !authority.contains("@"), rest.isEmpty || rest.hasPrefix("/") else { return nil }
            let port = ":443"
            origin = authority.hasSuffix(port) ? String(authority.dropLast(port.count)) : authority
            self.rest = rest
        }
    }
}
