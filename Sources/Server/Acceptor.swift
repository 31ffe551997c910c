public import Bytes
public import EventLoop
public import TLS

/// The listeners of one worker and the connections they accepted. It owns each `ServerConnection` until that closes.
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
    /// Whether the acceptor is draining: each response then ends its connection.
    public private(set) var isDraining = false
    /// Whether a client may still send the request that may be on its way.
    private(set) var isWindingUp = false
    private var drained: (() -> Void)?
    /// Connections to advance at the end of the loop's turn, and whether the loop was asked to call back then.
    private var scheduled: [ServerConnection] = []
    /// The connections that are being advanced. At other times empty, with its capacity kept.
    private var due: [ServerConnection] = []
    private var isTurnEndAwaited = false
    /// Returns why a connection may no longer stay open, by the configuration loaded since it was accepted.
    private var objection: ((ServerConnection) -> ClientAdmission.KeyRejection?)?
    /// TLS handshakes in flight.
    public private(set) var handshakeCount = 0
    private var handshakes = ArrivalQueue()
    /// Connections accepted so far.
    private var opened: UInt64 = 0

    private struct Listener {
        /// Nil once the listener no longer accepts.
        var socket: ListeningSocket?
        /// The maximum of open connections.
        let limit: Int
        var connections = 0
    }

    public init(loop: Loop, settings: ServerSettings, pool: BufferPool, application: Application) {
        self.loop = loop
        self.settings = settings
        self.pool = pool
        self.application = application
    }

    /// Serves connections on a listening socket. The TLS contexts decide whether clients need a certificate.
    ///
    /// - Parameters:
    ///   - tls: Nil for connections without TLS.
    ///   - proxies: Peers whose connections must begin with a PROXY header; with TLS only.
    ///   - peers: Those that may connect.
    ///   - connections: The maximum of open connections.
    public func listen(
        on socket: consuming Socket, tls: VirtualHosts?, proxies: TrustedProxies = .none,
        peers: AdmittedPeers = .all, connections: Int = .max
    ) {
        add(
            socket, tls: tls, proxies: tls == nil ? .none : proxies.unshared, peers: peers.unshared,
            connections: connections)
    }

    /// Serves TLS connections of a listener with one host.
    public func listen(on socket: consuming Socket, tls: ServerContext, proxies: TrustedProxies = .none) {
        listen(on: socket, tls: VirtualHosts(tls), proxies: proxies)
    }

    /// Serves connections without TLS, whose clients have no identity. For sockets with another protection, such as
    /// the mode of a Unix socket's file.
    public func listen(on socket: consuming Socket) {
        add(socket, tls: nil, proxies: .none, peers: .all, connections: .max)
    }

    private func add(
        _ socket: consuming Socket, tls: VirtualHosts?, proxies: TrustedProxies, peers: AdmittedPeers, connections: Int
    ) {
        let application = application
        let place = listeners.count
        let listener = ListeningSocket(
            loop: loop, socket: socket, ceiling: settings.descriptorCeiling,
            exhausted: { application.acceptingPaused(errno: $0) }
        ) { [unowned self] socket, peer in
            open(socket, of: place, peer: peer, tls: tls, peers: peers, isProxied: proxies.contains(peer))
        }
        listeners.append(Listener(socket: listener, limit: connections))
    }

    private func open(
        _ socket: consuming Socket, of listener: Int, peer: SocketAddress, tls: VirtualHosts?, peers: AdmittedPeers,
        isProxied: Bool
    ) {
        guard
            let connection = ServerConnection(
                acceptor: self, listener: listener, socket: socket, peer: peer, tls: tls, isProxied: isProxied)
        else { return }
        guard peers.contains(connection) else { return application.connectionRefused(connection, .peer) }
        // First, so that no connection is closed for one that is then not admitted. A proxied connection is judged
        // once its header has named the client.
        guard isProxied || admits(connection) else { return }  // dropping the connection closes it
        if let refusal = refusalForRoom(on: listener) {
            application.connectionRefused(connection, refusal)
            if connection.standing >= .admitted { application.connectionClosed(connection) }
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
    /// - Returns: The reason if there is no room; nil if there is.
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

    /// Advances a connection at the end of the loop's turn, which may bring it more to write.
    func advanceWhenTurnEnds(_ connection: ServerConnection) {
        scheduled.append(connection)
        guard !isTurnEndAwaited else { return }
        isTurnEndAwaited = true
        loop.whenTurnEnds { [self] in advanceAll() }
    }

    private func advanceAll() {
        // Connections scheduled meanwhile are advanced at the end of the next turn, which does not wait.
        isTurnEndAwaited = false
        swap(&scheduled, &due)
        for connection in due {
            connection.isAdvanceScheduled = false
            connection.advance()
        }
        due.removeAll(keepingCapacity: true)
    }

    /// Returns whether the application admits one more connection of this client. If so, the application learns when
    /// the connection ends.
    func admits(_ connection: ServerConnection) -> Bool {
        guard application.admits(connection) else {
            application.connectionRefused(connection, .sourceLimit)
            return false
        }
        connection.standing = .admitted
        return true
    }

    // MARK: - Handshakes in flight

    /// Counts a handshake. At the limit it ends the oldest handshake, not the newest. An attacker who wants to keep
    /// all others out must then open as many connections as the limit within the time of a genuine handshake, not
    /// within its timeout.
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

    /// Counts a handshake that is complete, or whose connection has ended.
    func leaveHandshake() { handshakeCount -= 1 }

    // MARK: - Connections

    /// Ends connections that are idle, or whose clients have not yet authenticated, as `ConnectionEviction` chooses
    /// them.
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

    /// Releases a connection that has closed itself.
    ///
    /// - Parameter isInHandshake: Whether its handshake was in flight.
    func remove(_ connection: ServerConnection, isInHandshake: Bool) {
        connections[connection.slot] = nil
        freeSlots.append(connection.slot)
        connectionCount -= 1
        listeners[connection.listener].connections -= 1
        if isInHandshake { leaveHandshake() }
        if connection.standing >= .admitted { application.connectionClosed(connection) }
        reportIfDrained()
    }

    /// Duplicates the socket of a listener for another acceptor. Both share one queue of connections.
    ///
    /// - Parameter index: The listener's position, in the order in which they were added.
    /// - Returns: Nil if no descriptor is left, or there is no such listener.
    public func duplicateListener(_ index: Int) -> Int32? {
        listeners.indices.contains(index) ? listeners[index].socket?.duplicate() : nil
    }

    private func stopListening() {
        for index in listeners.indices { listeners[index].socket = nil }
    }

    /// Stops accepting; open connections stay open.
    ///
    /// - Parameter emptied: Called once, when the last connection has closed.
    public func retire(_ emptied: @escaping () -> Void) {
        drained = emptied
        stopListening()
        reportIfDrained()
    }

    /// Stops accepting, closes idle connections, and lets the others complete the request in flight.
    ///
    /// - Parameter drained: Called once, when the last connection has closed. It replaces an earlier callback.
    public func drain(_ drained: @escaping () -> Void) {
        isDraining = true
        isWindingUp = false
        self.drained = drained
        stopListening()
        for connection in connections { connection?.drain() }
        reportIfDrained()
    }

    /// Stops accepting, and serves of each connection what may be on its way: with HTTP/1.1 at most one request, with
    /// HTTP/2 all that arrive before the last GOAWAY. Handshakes are completed. A connection without input closes
    /// after `ConnectionLife.notice`. May be followed by `retire` or `drain`.
    public func windUp() {
        isDraining = true
        isWindingUp = true
        stopListening()
        for connection in connections { connection?.windUp() }
    }

    /// Winds up the connections of some listeners; the others are served on. WebSockets continue.
    ///
    /// - Parameter listeners: The positions, in the order in which they were added.
    public func windUp(listeners: Set<Int>) {
        for case let connection? in connections where listeners.contains(connection.listener) { connection.windUp() }
    }

    /// Whether every request received is decided, and none can begin.
    public var isDecided: Bool { connections.allSatisfy { $0?.isDecided ?? true } }

    private func reportIfDrained() {
        guard connectionCount == 0, let drained else { return }
        self.drained = nil
        drained()
    }

    /// Closes every connection immediately.
    public func abortAll() { abort { _ in true } }

    /// Closes immediately the connections that match.
    public func abort(where isMeant: (ServerConnection) -> Bool) {
        for case let connection? in connections where isMeant(connection) { connection.abort() }
    }

    /// Ends the connections to which there is an objection: open ones now, and those in their handshake when it
    /// completes.
    public func bar(where objection: @escaping (ServerConnection) -> ClientAdmission.KeyRejection?) {
        self.objection = objection
        for case let connection? in connections {
            if isBarred(connection) {
                connection.isBarred = true
                connection.abort()
            }
        }
    }

    /// Returns whether there is an objection to a connection, and reports it to the application.
    func isBarred(_ connection: ServerConnection) -> Bool {
        guard let found = objection?(connection) else { return false }
        application.connectionRefused(connection, .certificateBarred(found))
        return true
    }
}

/// Connections in the order of arrival while their handshakes are in flight. The first is the nearest to its timeout.
///
/// A completed entry stays until it reaches the front or a sweep, so completion costs nothing.
struct ArrivalQueue {
    struct Entry {
        /// The connection's slot, and its number, because slots are used again.
        let slot: Int
        let number: UInt64
    }

    private var entries: [Entry] = []
    private var first = 0
    private var sweepAt = 128

    /// Entries, including those whose handshakes are complete.
    var count: Int { entries.count - first }

    /// Appends an entry.
    ///
    /// - Parameter isUnderWay: Returns whether the handshake of an entry is still in flight.
    mutating func append(_ entry: Entry, isUnderWay: (Entry) -> Bool) {
        entries.append(entry)
        guard entries.count >= sweepAt else { return }
        entries = entries[first...].filter(isUnderWay)
        first = 0
        // As many entries can arrive as are left, so sweeping costs each of them a step or two.
        sweepAt = max(128, 2 * entries.count)
    }

    /// Removes the oldest entry whose handshake is in flight, and returns it.
    mutating func popFirst(isUnderWay: (Entry) -> Bool) -> Entry? {
        while first < entries.count {
            defer { first += 1 }
            if isUnderWay(entries[first]) { return entries[first] }
        }
        return nil
    }
}

/// Chooses the connections to close when new ones find no room: the oldest that may be closed, of the holder with the
/// most connections.
///
/// A holder is a client certificate, or an address before the certificate is known. So a crowd does not displace the
/// clients of other holders. A /64 of IPv6 counts as one address, since its owner has all of it. Of holders with
/// equal counts the one with the oldest closable connection is chosen, so each newcomer has as much time as the
/// others had.
struct ConnectionEviction {
    /// A connection that may be closed.
    private struct Candidate {
        let isKnown: Bool
        let number: UInt64
    }

    private struct Holding {
        var count = 0
        var closable: [Candidate] = []

        var oldest: UInt64 { closable.map(\.number).min() ?? 0 }
    }

    private var holdings: [Int: Holding] = [:]

    /// - Parameters:
    ///   - number: The connection's number.
    ///   - isKnown: Whether the client has authenticated. A holder's other connections are closed first.
    ///   - isClosable: Whether closing it loses nothing.
    mutating func add(holder: Int, number: UInt64, isKnown: Bool, isClosable: Bool) {
        holdings[holder, default: Holding()].count += 1
        guard isClosable else { return }
        holdings[holder, default: Holding()].closable.append(Candidate(isKnown: isKnown, number: number))
    }

    /// One of so many connections is closed at a time: to search all of them for each newcomer would cost more than a
    /// newcomer.
    private static let part = 256

    /// The numbers of the connections to close; empty if none may be closed. More than one only with many
    /// connections, and while their holder keeps more than any other.
    var numbers: [UInt64] {
        let candidates = holdings.values.filter { !$0.closable.isEmpty }
        func precedes(_ left: Holding, _ right: Holding) -> Bool {
            (left.count, right.oldest) < (right.count, left.oldest)
        }
        guard let largest = candidates.max(by: precedes) else { return [] }
        let counts = holdings.values.map(\.count).sorted()
        let second = counts.dropLast().last ?? 0
        let total = counts.reduce(0, +)
        let excess = min(total / Self.part, largest.count - second)
        let order = largest.closable.sorted { ($0.isKnown ? 1 : 0, $0.number) < ($1.isKnown ? 1 : 0, $1.number) }
        return order.prefix(max(1, excess)).map(\.number)
    }
}
