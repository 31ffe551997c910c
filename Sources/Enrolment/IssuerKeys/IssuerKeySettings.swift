/// The settings of the keys of an issuer that are fetched. Plain values; files were read before.
public struct IssuerKeySettings: Sendable {
    /// What the service's path answers with.
    public enum Content: Sendable {
        /// A JWK Set.
        case keys
        /// The metadata of OpenID Connect Discovery, which names the place of the JWK Set and must name this issuer.
        case metadata(issuer: String)
    }

    /// The path of the metadata below the issuer's own (OpenID Connect Discovery 1.0 section 4).
    public static let metadataPath = "/.well-known/openid-configuration"

    public var service: FetchedService
    public var content: Content
    /// The time between two fetches in seconds.
    public var interval: Int64
    /// The time from a failed fetch to the next in seconds.
    public var retry: Int64
    /// The maximum age of the keys in seconds.
    public var staleAfter: Int64

    public init(service: FetchedService, content: Content, interval: Int64, retry: Int64, staleAfter: Int64) {
        self.service = service
        self.content = content
        self.interval = interval
        self.retry = retry
        self.staleAfter = staleAfter
    }
}
