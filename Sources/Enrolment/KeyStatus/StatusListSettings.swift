public import Attestation

/// The settings of the status list of Android's attestation keys. Plain values; files were read before, except the list
/// itself.
public struct StatusListSettings: Sendable {
    /// The origin of the list.
    public enum Source: Sendable {
        /// - copyPath: The path of the file that keeps the last list.
        case service(FetchedService, copyPath: String)
        /// The path of a file that another program keeps current.
        case file(String)
    }

    public var source: Source
    /// The service. Nil if the list comes from a file.
    public var service: FetchedService? {
        if case .service(let service, _) = source { service } else { nil }
    }
    /// The path of the file that keeps the last list. Nil if the list comes from a file.
    public var copyPath: String? {
        if case .service(_, let copyPath) = source { copyPath } else { nil }
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
        case .service(let service, _): service.url
        case .file(let path): path
        }
    }
}
