public import EventLoop

/// How servers are asked whether they are well.
public struct HealthCheckRules: Sendable {
    /// Of the request: `/health`.
    public var path: String
    /// What the request calls the host; nil: the server as it is configured.
    public var host: String?
    /// From one check to the next.
    public var interval = TimeSpan.seconds(5)
    /// For a whole check; less than `interval`.
    public var timeout = TimeSpan.seconds(2)
    /// Checks, one after the other, that make it healthy or unhealthy.
    public var healthyAfter = 2
    public var unhealthyAfter = 3
    /// The one status that passes; nil: 200 to 299.
    public var status: UInt16?

    public init(path: String) {
        self.path = path
    }

    func passes(_ status: UInt16) -> Bool {
        if let expected = self.status { return status == expected }
        return (200...299).contains(status)
    }
}
