public import EventLoop
public import Upstream

/// A service from which content is fetched over HTTP and kept. Redirects are not followed.
public struct FetchedService: Sendable {
    /// The URL as configured.
    public var url: String
    /// The value of Host.
    public var host: String
    public var path: String
    /// The service, an upstream with one server.
    public var upstream: UpstreamSettings
    /// The resolver of the service's name, with the addresses that are not permitted.
    public var resolver: ResolverSettings
    public var forbidden: ForbiddenAddresses
    /// The time for a call.
    public var timeout: TimeSpan

    public init(
        url: String, host: String, path: String, upstream: UpstreamSettings, resolver: ResolverSettings,
        forbidden: ForbiddenAddresses, timeout: TimeSpan
    ) {
        self.url = url
        self.host = host
        self.path = path
        self.upstream = upstream
        self.resolver = resolver
        self.forbidden = forbidden
        self.timeout = timeout
    }
}
