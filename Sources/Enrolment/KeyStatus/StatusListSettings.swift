public import Attestation
public import EventLoop
public import Upstream

/// The settings of the status list of Android's attestation keys. Plain values; files were read before, except the list
/// itself.
public struct StatusListSettings: Sendable {
    /// The origin of the list.
    public enum Source: Sendable {
        case service(Service)
        /// The path of a file that another program keeps current.
        case file(String)
    }

    /// A service that serves the list over HTTP.
    public struct Service: Sendable {
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
        /// The path of the file that keeps the last list.
        public var copyPath: String

        public init(
            url: String, host: String, path: String, upstream: UpstreamSettings, resolver: ResolverSettings,
            forbidden: ForbiddenAddresses, timeout: TimeSpan, copyPath: String
        ) {
            self.url = url
            self.host = host
            self.path = path
            self.upstream = upstream
            self.resolver = resolver
            self.forbidden = forbidden
            self.timeout = timeout
            self.copyPath = copyPath
        }
    }

    public var source: Source
    /// The service. Nil if the list comes from a file.
    public var service: Service? {
        if case .service(let service) = source { service } else { nil }
    }
    /// The environments of apps whose phones are compared with the list.
    public var environments: Set<AndroidApp.Environment>
    /// The time between two fetches in seconds.
    public var interval: Int64
    /// The time from a failed fetch to the next in seconds.
    public var retry: Int64
    /// The maximum age of the list in seconds.
    public var staleAfter: Int64

    public init(
        source: Source, environments: Set<AndroidApp.Environment>, interval: Int64, retry: Int64, staleAfter: Int64
    ) {
        self.source = source
        self.environments = environments
        self.interval = interval
        self.retry = retry
        self.staleAfter = staleAfter
    }
}

extension StatusListSettings.Source {
    /// The URL or the path, for people.
    var name: String {
        switch self {
        case .service(let service): service.url
        case .file(let path): path
        }
    }
}
