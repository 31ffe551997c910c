public import Bytes
public import EventLoop
public import TLS

/// The listeners of one worker and the connections they accepted: who owns a `ServerConnection` from its first byte to
/// its last.
public final class Acceptor {
    let loop: Loop
    let settings: ServerSettings
    let application: Application
    public let pool: BufferPool
    private var listeners: [Listener] = []
    private var connections: [ServerConnection?] = []
    private var freeSlots: [Int] = []
    /// Connections open now.
    public private(set) var connectionCount = 0
    /// Set when the worker stops: each response then ends its connection.
    public var isDraining: Bool { endsConnections }
    private var endsConnections = false
    /// Whether clients still get the time for what they may be sending right now.
    private(set) var isWindingUp = false
    private var drained: (() -> Void)?
    /// Connections to be settled when the loop's turn ends, and whether that was asked for.
    private var scheduled: [ServerConnection] = []
    private var isTurnEndAwaited = false
    /// What speaks against keeping a connection, by what has been loaded since it was accepted.
    private var objection: ((ServerConnection) -> ClientAdmission.KeyRejection?)?
    /// TLS handshakes under way now.
    public private(set) var handshakeCount = 0
    private var handshakes = ArrivalQueue()
    /// Connections taken since the beginning.
    private var opened: UInt64 = 0

    private struct Listener {
        /// Nil when nothing more is accepted.
        var socket: ListeningSocket?
        /// Connections that may be open.
        let limit: Int
        var connections = 0
    }

    public init(loop: Loop, settings: ServerSettings, pool: BufferPool, application: Application) {
        self.loop = loop
        self.settings = settings
        self.pool = pool
        self.application = application
    }

    /// Serves TLS connections on a listening socket. Whether their clients have an identity, the contexts decide.
    ///
    /// - Parameters:
    ///   - proxies: whose connections must begin with a PROXY header.
    ///   - connections: that may be open.
    public func listen(
        on socket: consuming Socket, tls: VirtualHosts, proxies: TrustedProxies = .none, connections: Int = .max
    ) {
        add(socket, tls: tls, proxies: proxies.unshared, connections: connections)
    }

    /// The same for a listener of one host.
    public func listen(on socket: consuming Socket, tls: ServerContext, proxies: TrustedProxies = .none) {
        listen(on: socket, tls: VirtualHosts(tls), proxies: proxies)
    }

    /// Serves connections without TLS, whose clients have no identity. For sockets that something else guards, such as the
    /// mode of a Unix socket's file.
    public func listen(on socket: consuming Socket) {
        add(socket, tls: nil, proxies: .none, connections: .max)
    }

    private func add(_ socket: consuming Socket, tls: VirtualHosts?, proxies: TrustedProxies, connections: Int) {
        let application = application
        let place = listeners.count
        let listener = ListeningSocket(
            loop: loop, socket: socket, ceiling: settings.descriptorCeiling,
            exhausted: { application.acceptingPaused(errno: $0) }
        ) { [unowned self] socket, peer in
            open(socket, of: place, peer: peer, tls: tls, isProxied: proxies.contains(peer))
        }
        listeners.append(Listener(socket: listener, limit: connections))
    }

    private func open(
        _ socket: consuming Socket, of listener: Int, peer: SocketAddress, tls: VirtualHosts?, isProxied: Bool
    ) {
        guard
            let connection = ServerConnection(
                acceptor: self, listener: listener, socket: socket, peer: peer, tls: tls, isProxied: isProxied)
        else { return }
        // First: nobody gives way to a connection that would not be admitted anyway. A proxy's is asked about when its header
        // says whose it is.
        guard isProxied || admits(connection) else { return }  // dropping the connection closes it
        if let refusal = refusalForRoom(on: listener) {
            application.connectionRefused(connection, refusal)
            if connection.isAdmitted { application.connectionClosed(connection) }
            return
        }
        connectionCount += 1
        listeners[listener].connections += 1
        opened += 1
        connection.number = opened
        if let slot = freeSlots.popLast() {
            connection.slot = slot
            connections[slot] = connection
        } else {
            connection.slot = connections.count
            connections.append(connection)
        }
        if tls != nil { enterHandshake(connection) }
        connection.start()
    }

    /// Makes room for one more connection.
    ///
    /// - Returns: why there is none; nil if there is.
    private func refusalForRoom(on listener: Int) -> ConnectionRefusal? {
        pool.meter.refresh()
        if pool.meter.pressure >= .refusesConnections {
            pool.meter.relieve?()
            guard pool.meter.pressure < .refusesConnections else {
                pool.meter.budget.count(.connectionRefused)
                return .memory
            }
        }
        if listeners[listener].connections >= listeners[listener].limit {
            closeForRoom(.listenerLimit) { $0.listener == listener }
            guard listeners[listener].connections < listeners[listener].limit else { return .listenerLimit }
        }
        if connectionCount >= settings.connections {
            closeForRoom(.limit) { _ in true }
            guard connectionCount < settings.connections else { return .limit }
        }
        return nil
    }

    /// A connection has something to write, and this turn of the loop may bring more.
    func advanceWhenTurnEnds(_ connection: ServerConnection) {
        scheduled.append(connection)
        guard !isTurnEndAwaited else { return }
        isTurnEndAwaited = true
        loop.whenTurnEnds { [self] in advanceAll() }
    }

    private func advanceAll() {
        // What is due while these are settled is due at the end of the next turn, which does not wait.
        isTurnEndAwaited = false
        let due = scheduled
        scheduled = []
        for connection in due {
            connection.isAdvanceScheduled = false
            connection.advance()
        }
    }

    /// Whether the application admits one more connection of this client; if so, the application learns when the
    /// connection has ended.
    func admits(_ connection: ServerConnection) -> Bool {
        connection.isAdmitted = application.admits(connection)
        if !connection.isAdmitted { application.connectionRefused(connection, .sourceLimit) }
        return connection.isAdmitted
    }

    // MARK: - Handshakes under way

    /// At the limit the oldest handshake is ended, not the newest. An attacker who wants to keep all others out must
    /// then open as many connections as the limit within the time of a genuine handshake, not within its timeout.
    private func enterHandshake(_ connection: ServerConnection) {
        if handshakeCount >= settings.handshakes, let oldest = oldestHandshake() {
            application.connectionRefused(oldest, .handshakeLimit)
            oldest.abort()
        }
        handshakeCount += 1
        let entry = ArrivalQueue.Entry(slot: connection.slot, number: connection.number)
        handshakes.append(entry) { underWay($0) != nil }
    }

    private func oldestHandshake() -> ServerConnection? {
        handshakes.popFirst { underWay($0) != nil }.flatMap(underWay)
    }

    private func underWay(_ entry: ArrivalQueue.Entry) -> ServerConnection? {
        guard let connection = connections[entry.slot], connection.number == entry.number, connection.isInHandshake
        else {
            return nil
        }
        return connection
    }

    /// A handshake is complete, or its connection at its end.
    func leaveHandshake() { handshakeCount -= 1 }

    // MARK: - Connections

    /// Ends connections that are idle, or whose clients have shown nothing yet, as `ConnectionEviction` chooses them.
    private func closeForRoom(_ refusal: ConnectionRefusal, among isMeant: (ServerConnection) -> Bool) {
        var choice = ConnectionEviction()
        for case let connection? in connections where isMeant(connection) {
            choice.add(
                holder: connection.holder, number: connection.number, isKnown: connection.isKnown,
                isClosable: connection.isIdle || settings.strangersGiveWay && !connection.isKnown)
        }
        let numbers = choice.numbers
        guard !numbers.isEmpty else { return }
        for case let connection? in connections where numbers.contains(connection.number) {
            if !connection.isRefused { application.connectionRefused(connection, refusal) }
            if connection.isIdle { connection.closeGracefully() } else { connection.abort() }
        }
    }

    func forEachConnection(_ body: (ServerConnection) -> Void) {
        for case let connection? in connections { body(connection) }
    }

    /// Lets go of a connection that has closed itself.
    func remove(_ connection: ServerConnection) {
        connections[connection.slot] = nil
        freeSlots.append(connection.slot)
        connectionCount -= 1
        listeners[connection.listener].connections -= 1
        if connection.isInHandshake { leaveHandshake() }
        if connection.isAdmitted { application.connectionClosed(connection) }
        reportIfDrained()
    }

    /// A second descriptor of a listener's socket, for another acceptor: both have one queue of connections.
    ///
    /// - Parameter index: of the listener, in the order they were added.
    /// - Returns: nil if there is no descriptor left, or no such listener.
    public func duplicateListener(_ index: Int) -> Int32? {
        listeners.indices.contains(index) ? listeners[index].socket?.duplicate() : nil
    }

    private func stopListening() {
        for index in listeners.indices { listeners[index].socket = nil }
    }

    /// Stops accepting; connections that are open stay so.
    ///
    /// - Parameter emptied: called once, when the last connection has closed.
    public func retire(_ emptied: @escaping () -> Void) {
        drained = emptied
        stopListening()
        reportIfDrained()
    }

    /// Stops accepting, closes idle connections, and lets the others finish the request they serve.
    ///
    /// - Parameter drained: called once, when the last connection has closed; in place of what was given before.
    public func drain(_ drained: @escaping () -> Void) {
        endsConnections = true
        isWindingUp = false
        self.drained = drained
        stopListening()
        for connection in connections { connection?.drain() }
        reportIfDrained()
    }

    /// Stops accepting, and takes from each connection no more than one request of HTTP/1.1, or of HTTP/2 those that are on
    /// their way; each is served. Handshakes are completed. A connection that nothing comes on closes soon, as
    /// `ConnectionLife.notice` says. May be followed by `retire` or `drain`.
    public func windUp() {
        endsConnections = true
        isWindingUp = true
        stopListening()
        for connection in connections { connection?.windUp() }
    }

    /// Whether all that has come is decided, and nothing more is begun.
    public var isDecided: Bool { connections.allSatisfy { $0?.isDecided ?? true } }

    private func reportIfDrained() {
        guard connectionCount == 0, let drained else { return }
        self.drained = nil
        drained()
    }

    /// Ends every connection at once.
    public func abortAll() { abort { _ in true } }

    /// Ends at once the connections of which that is true.
    public func abort(where isMeant: (ServerConnection) -> Bool) {
        for case let connection? in connections where isMeant(connection) { connection.abort() }
    }

    /// Ends the connections that something speaks against: those that are open now, and those that are in the middle of their
    /// handshake when it is complete.
    public func bar(where objection: @escaping (ServerConnection) -> ClientAdmission.KeyRejection?) {
        self.objection = objection
        for case let connection? in connections where connection.identity != nil {
            if isBarred(connection) {
                connection.isBarred = true
                connection.abort()
            }
        }
    }

    /// Whether a connection with an identity may not go on; then that has been reported.
    func isBarred(_ connection: ServerConnection) -> Bool {
        guard let found = objection?(connection) else { return false }
        application.connectionRefused(connection, .certificateBarred(found))
        return true
    }
}
