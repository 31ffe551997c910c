public import Bytes
public import EventLoop

/// One worker's connections to one upstream. Connections are used again, the last one given back first, so that those
/// not needed grow old and are closed.
public final class UpstreamPool {
    public let settings: UpstreamSettings
    let loop: Loop
    let buffers: BufferPool
    /// All connections, idle or not, by slot: who owns a connection from its first byte to its last.
    private var connections: [UpstreamConnection?] = []
    private var freeSlots: [Int] = []
    private var idle: [UpstreamConnection] = []
    private var nextServer = 0

    public init(loop: Loop, buffers: BufferPool, settings: UpstreamSettings) {
        self.loop = loop
        self.buffers = buffers
        self.settings = settings
    }

    /// Connections open now.
    public var connectionCount: Int { connections.count - freeSlots.count }

    /// Of those, the ones nobody uses.
    public var idleCount: Int { idle.count }

    /// Starts a call: the caller then writes the request to the connection's `output` and sends it.
    ///
    /// - Parameters:
    ///   - fresh: opens a new connection, because a kept one has just turned out to be dead.
    ///   - isOnlyTry: the call will not be made again on another connection, so a kept one is asked first whether its peer
    ///     has closed it.
    public func start(
        _ call: UpstreamCall, fresh: Bool = false, isOnlyTry: Bool = false
    ) throws(UpstreamFailure) -> UpstreamConnection {
        while !fresh, let connection = idle.popLast() {
            guard !isOnlyTry || connection.isQuiet else {
                connection.discard()
                continue
            }
            connection.begin(call)
            return connection
        }
        guard connectionCount < settings.connections else { throw .connectionLimit }
        let connection = try UpstreamConnection(pool: self)
        if let slot = freeSlots.popLast() {
            connection.slot = slot
            connections[slot] = connection
        } else {
            connection.slot = connections.count
            connections.append(connection)
        }
        connection.begin(call)
        return connection
    }

    /// The servers in turn.
    func nextAddress() -> SocketAddress {
        let address = settings.servers[nextServer % settings.servers.count]
        nextServer = (nextServer + 1) % settings.servers.count
        return address
    }

    /// Takes back a connection that can serve another call.
    func release(_ connection: UpstreamConnection) {
        if idle.count < settings.idleConnections { idle.append(connection) } else { connection.discard() }
    }

    /// Lets go of a connection that has closed itself.
    func remove(_ connection: UpstreamConnection, isIdle: Bool) {
        if isIdle, let index = idle.firstIndex(where: { $0 === connection }) { idle.remove(at: index) }
        connections[connection.slot] = nil
        freeSlots.append(connection.slot)
    }

    /// Closes the connections nobody uses.
    public func closeIdle() {
        for connection in idle { connection.discard() }
    }
}
