/// The hosts of one listener of one worker: each has a context of its own, and there is one for clients that ask for no host,
/// or for one that is not among them.
public final class VirtualHosts {
    /// For everybody else. Every connection begins with it.
    public let standard: ServerContext
    private let named: ServerNameTable<ServerContext>
    /// The last name asked for that is no host's: mostly it is always the same one, and kept once for all connections.
    private var lastStranger: ServerName?

    /// - Parameter hosts: no name may be that of two of them.
    public init(_ standard: ServerContext, hosts: [ServerContext] = []) {
        self.standard = standard
        named = ServerNameTable(hosts.flatMap { host in host.names.map { (name: $0, value: host) } })
        for context in [standard] + hosts { context.readClientHello() }
    }

    /// Every host's name, with what admits its clients.
    public var admissions: [(name: ServerName, admission: ClientAdmission)] {
        named.entries.map { ($0.name, $0.value.admission) }
    }

    /// Whether one of the hosts has the name, which may be written in any case.
    public func hasHost(_ name: Span<UInt8>) -> Bool { named.place(of: name) != nil }

    /// - Parameter name: what the client asks for; nil if for nothing.
    /// - Returns: who serves it, and the name, to be kept for as long as the connection lasts.
    func choose(_ name: ServerName?) -> (context: ServerContext, name: ServerName?) {
        guard let name else { return (standard, nil) }
        if let place = named.place(of: name.bytes.span) {
            return (named.entries[place].value, named.entries[place].name)
        }
        if lastStranger != name { lastStranger = name }
        return (standard, lastStranger)
    }
}
