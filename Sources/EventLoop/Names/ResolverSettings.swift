/// How names are resolved, and for how long an answer is believed.
public struct ResolverSettings: Sendable {
    /// Asked in turn; none for those of /etc/resolv.conf, with its search domains.
    public var nameservers: [SocketAddress]
    /// For one attempt.
    public var timeout: TimeSpan
    /// Questions that are sent for one kind of address, to one nameserver after the other.
    public var attempts: Int
    /// An answer is believed for as long as it says, but neither shorter nor longer than this.
    public var minimumTTL: TimeSpan
    public var maximumTTL: TimeSpan

    public init(
        nameservers: [SocketAddress] = [], timeout: TimeSpan = .seconds(1), attempts: Int = 3,
        minimumTTL: TimeSpan = .seconds(5), maximumTTL: TimeSpan = .seconds(300)
    ) {
        self.nameservers = nameservers
        self.timeout = timeout
        self.attempts = attempts
        self.minimumTTL = minimumTTL
        self.maximumTTL = maximumTTL
    }

    /// When a lookup is given up, whatever search domains there are.
    var patience: TimeSpan { TimeSpan(nanoseconds: timeout.nanoseconds * Int64(attempts) + 500_000_000) }
}
