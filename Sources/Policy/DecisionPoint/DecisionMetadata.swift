internal import Encoding
internal import HTTP

/// The metadata of a decision point (AuthZEN section 9).
public enum DecisionMetadata {
    private static let wellKnown = "/.well-known/authzen-configuration"

    /// Returns the path of the metadata.
    ///
    /// - Parameter url: The URL of the decision point. A path in it follows the well-known one (RFC 8414 section 3.1).
    /// - Returns: nil unless it is an https URL without query and fragment: no metadata is read over http.
    public static func path(of url: String) -> String? {
        guard let url = SecureURL(url), !url.rest.contains("?") else { return nil }
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
            guard let own = SecureURL(url), metadata["policy_decision_point"]?.spells(url) == true,
                let text = metadata["access_evaluation_endpoint"]?.text,
                let endpoint = SecureURL(String(decoding: text, as: UTF8.self)), endpoint.origin == own.origin,
                !endpoint.rest.isEmpty
            else { throw .metadata }
            return .success(endpoint.rest)
        } catch {
            return .failure(error)
        }
    }
}
