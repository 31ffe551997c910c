public import Bytes
public import Cryptography
public import EventLoop

/// The connections to services that this process itself calls, one pool for each. Their names are resolved from `find`
/// to `leave`.
public final class OutboundServices {
    /// The pools, in the order of the upstreams.
    public let pools: [UpstreamPool]
    private let servers: Set<NamedServer>
    private let resolver: ResolverSettings
    private let forbidden: ForbiddenAddresses
    private let loop: Loop
    /// Called with events of the names for the operator.
    private let onEvent: (NameBook.Event) -> Void
    /// The addresses of services that have names. Nil while no calls are made.
    private var names: NameBook?

    private static let namePatience = TimeSpan.seconds(2)

    /// Creates the pools. No name is resolved yet.
    ///
    /// - Parameters:
    ///   - upstreams: The services, upstreams with one server each.
    ///   - forbidden: Addresses to which no name may resolve.
    ///   - library: A context of the loop's thread.
    public init(
        _ upstreams: [UpstreamSettings], resolver: ResolverSettings, forbidden: ForbiddenAddresses, loop: Loop,
        buffers: BufferPool, library: LibraryContext, onEvent: @escaping (NameBook.Event) -> Void
    ) throws(CryptographyError) {
        self.resolver = resolver
        self.forbidden = forbidden
        self.loop = loop
        self.onEvent = onEvent
        servers = Set(upstreams.flatMap(\.servers).compactMap(\.resolved))
        pools = try upstreams.map { upstream throws(CryptographyError) in
            try UpstreamPool(
                loop: loop, buffers: buffers, settings: upstream, tallies: upstream.servers.map { _ in ServerTally() },
                library: library)
        }
    }

    /// Resolves the names and keeps the addresses current until `leave`. Failed names are tried again.
    ///
    /// - Parameter done: Called when all names have a result or the wait has ended. It is called at once if they are
    ///   known already.
    public func find(_ done: @escaping () -> Void) {
        guard names == nil else { return done() }
        let names = NameBook(loop: loop, settings: resolver, forbidden: forbidden)
        self.names = names
        names.onChange = { [unowned self] servers in
            for server in servers { move(server) }
        }
        names.onEvent = onEvent
        names.follow(servers)
        names.whenAnswered(within: Self.namePatience, done)
    }

    /// Stops resolving. The pools keep their addresses.
    public func leave() { names = nil }

    private func move(_ server: NamedServer) {
        let addresses = names?.addresses(of: server) ?? []
        for pool in pools { pool.readdress(server, to: addresses) }
    }
}
