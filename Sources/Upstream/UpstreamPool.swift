public import Bytes
public import Cryptography
public import EventLoop
internal import Glibc
internal import TLS

/// The connections of one worker to one upstream. The pool chooses servers, keeps connections, lets requests wait for
/// them, and remembers failing servers.
///
/// The HTTP/2 connections and the health of servers are in `UpstreamPool+Streams`.
///
/// ```
///  open(checks) -- close --> closed          sufficient -- no descriptor --> exhausted(until)
///                                                 ^-- connected, or until --------+
/// ```
public final class UpstreamPool {
    enum Life {
        case open(checks: [HealthCheck])
        /// No request is in flight any more, and no server is checked.
        case closed
    }

    /// The descriptors and the memory for further connections.
    private enum Supply {
        case sufficient
        /// The last connection could not be opened.
        case exhausted(until: Instant)
    }

    public let settings: UpstreamSettings
    let loop: Loop
    let buffers: BufferPool
    /// The servers' states for the balancer, and their other data, by index.
    var states: [ServerState]
    let servers: [UpstreamServer]
    var balancer: Balancer
    /// All connections, idle or not, by slot. The pool owns a connection from its first byte to its last.
    private var connections: [UpstreamConnection?] = []
    private var freeSlots: [Int] = []
    /// The number of connections that check servers, which count for no limit.
    private var checkCount = 0
    /// The number of idle connections.
    public internal(set) var idleCount = 0
    /// The number of requests that have begun, or wait for their connection to open.
    private var underWay = 0
    /// The number of tunnels, open or opening.
    private var heldTunnels = 0
    private let waiting: WaitingQueue<UpstreamCall>
    private var waitingTimer: LoopTimer?
    /// Whether waiting calls are served at the end of the turn.
    private var isServiceDue = false
    private var supply = Supply.sufficient
    var life = Life.open(checks: [])
    /// Called when a worker starts or stops using a server. Rare.
    public var onHealthChange: ((String, ServerHealthChange) -> Void)?

    /// Creates a pool.
    ///
    /// - Parameters:
    ///   - tallies: the counters of each server, in the order of `settings`.
    ///   - library: the library context of the loop's thread.
    public init(
        loop: Loop, buffers: BufferPool, settings: UpstreamSettings, tallies: [ServerTally], library: LibraryContext
    ) throws(CryptographyError) {
        var tls: ClientContext?
        if let settings = settings.tls { tls = try ClientContext(settings, library: library) }
        self.loop = loop
        self.buffers = buffers
        self.settings = settings
        states = settings.servers.map {
            ServerState(
                name: $0.name, health: ServerHealth(ejection: settings.ejection, checks: settings.health),
                isResolved: !$0.addresses.isEmpty)
        }
        servers = zip(settings.servers, tallies).map { UpstreamServer($0, tls: tls, tally: $1) }
        balancer = Balancer(
            settings.balance, limit: settings.requestsPerServer,
            share: settings.connectionsPerServer == nil
                ? max(1, settings.connections / 2) * settings.requestsPerConnection : settings.requestsPerServer)
        waiting = WaitingQueue(limit: settings.waiting)
        if settings.waiting > 0 {
            waitingTimer = LoopTimer(loop: loop, startsIn: nil) { [unowned self] in glanceAtWaiting() }
        }
        startChecks()
    }

    deinit {
        // A prepared configuration that was not adopted has only checks in flight.
        for connection in connections { connection?.abandon() }
    }

    /// The number of open connections for requests.
    public var connectionCount: Int { connections.count - freeSlots.count - checkCount }
    /// The number of waiting requests.
    public var waitingCount: Int { waiting.count }

    // MARK: - Starting calls

    /// The reason why a new call would fail for lack of capacity in this process, or nil. Checked before any work for a
    /// request.
    public var shortage: UpstreamFailure? {
        if let limit = settings.requests, underWay + waiting.count >= limit { return .requestLimit }
        if waiting.isFull, !waiting.isEmpty { return isExhausted ? .exhausted(errno: EMFILE) : .connectionLimit }
        guard idleCount == 0, !servers.contains(where: { $0.open.contains { $0.hasRoom } }) else { return nil }
        // A new connection would be needed, which costs far more than this check.
        guard isExhausted || !Socket.canOpen(ceiling: settings.descriptorCeiling) else { return nil }
        return .exhausted(errno: EMFILE)
    }

    /// Whether the last connection could not be opened for lack of descriptors or memory.
    private var isExhausted: Bool { if case .exhausted(let end) = supply { loop.now < end } else { false } }

    /// Starts a call. The caller then writes the request and sends it.
    ///
    /// - Parameter key: the client's key, for `Balance.device`.
    /// - Returns: nil if the call waits for a connection; `began(on:)` is called when it has one.
    public func start(
        _ call: UpstreamCall, for key: UInt64
    ) throws(UpstreamFailure) -> UpstreamCarrier? {
        // Otherwise two servers would answer one request, and the second answer would follow the first one's.
        guard case .unplaced = call.placement else { preconditionFailure("a call is under way already") }
        call.search = UpstreamCall.Search(key: key)
        call.kept.reset()
        if let limit = settings.requests, underWay + waiting.count >= limit { throw .requestLimit }
        return try connectionOrWait(call, isFresh: false)
    }

    /// Restarts a call that got no response: on a new connection, and at another server if there is one.
    public func startAgain(_ call: UpstreamCall) throws(UpstreamFailure) -> UpstreamCarrier? {
        let others = states.indices.contains { states[$0].isResolved && !call.search.tried.contains($0) }
        if !others { call.search.tried = ServerSet() }
        call.search.waitingEnd = nil
        return try connectionOrWait(call, isFresh: true)
    }

    private func connectionOrWait(
        _ call: UpstreamCall, isFresh: Bool
    ) throws(UpstreamFailure) -> UpstreamCarrier? {
        // Waiting calls come first.
        if waiting.isEmpty {
            switch try place(for: call, isFresh: isFresh) {
            case .carrier(let carrier): return carrier
            case .awaited: return nil
            case .none: break
            }
        }
        try wait(call)
        return nil
    }

    private func wait(_ call: UpstreamCall) throws(UpstreamFailure) {
        guard !waiting.isFull else { throw isExhausted ? .exhausted(errno: EMFILE) : .connectionLimit }
        let end = call.search.waitingEnd ?? loop.now + settings.waitingTimeout
        // The call may have waited before, and then found no room on its connection: its waiting time does not restart.
        guard loop.now < end else { throw .waitingTimeout }
        call.search.waitingEnd = end
        let isFirst = waiting.isEmpty
        let ticket = waiting.append(call, until: loop.now + settings.waitingTimeout)
        call.placement = .queued(UpstreamCall.QueuePlace(pool: self, ticket: ticket))
        if isFirst { waitingTimer?.start(after: min(settings.waitingTimeout, Self.glance)) }
    }

    /// The place of a call that wants to begin.
    enum Place {
        case carrier(UpstreamCarrier)
        /// The call waits for a server that is being connected, and begins then.
        case awaited
        /// There is no connection, and none may be opened now.
        case none
    }

    private func place(for call: UpstreamCall, isFresh: Bool) throws(UpstreamFailure) -> Place {
        guard settings.speaks == .http11 else { return try streamPlace(for: call) }
        guard let server = choose(for: call.search) else { return .none }
        // Other long unused connections are hardly better than the one that has just failed.
        if isFresh {
            let oldest = servers[server].idle.first
            oldest?.discard()
        }
        while !isFresh, let connection = servers[server].idle.popLast() {
            idleCount -= 1
            // Its server may have closed it, or sent more than its last response, which would be taken for the next
            // one. The loop may not have noticed yet, in whatever order events arrive.
            guard connection.isReusable else {
                connection.discard()
                continue
            }
            callBegins(call, at: connection.server)
            connection.begin(call)
            return .carrier(.http1(connection))
        }
        guard makeRoom() else { return .none }
        let connection: HTTP1Connection
        do throws(UpstreamFailure) {
            connection = try connect(for: call, to: server) {
                HTTP1Connection(pool: self, server: $0, addressesLeft: $1, socket: $2, isCheck: false)
            }
        } catch {
            // Descriptors become free as connections end. The call waits, as if the pool had no connection left.
            guard error.kind == .exhausted else { throw error }
            return .none
        }
        callBegins(call, at: connection.server)
        connection.begin(call)
        return .carrier(.http1(connection))
    }

    func callBegins(_ call: UpstreamCall, at server: Int) {
        call.search.lastServer = server
        call.search.isPlaced = true
        states[server].busy += 1
        underWay += 1
        servers[server].tally.counts.requests += 1
    }

    /// Places a call whose connection could not be established, or has no room for it after all.
    func begin(_ call: UpstreamCall, again place: () throws(UpstreamFailure) -> Place) {
        do throws(UpstreamFailure) {
            switch try place() {
            case .carrier(let carrier): call.began(on: carrier)
            case .awaited: return
            case .none: return try wait(call)
            }
        } catch {
            call.failed(error, again: .never)
        }
        call.finishEvent()
    }

    /// Closes an idle connection if necessary.
    ///
    /// - Returns: whether one more connection may be opened.
    func makeRoom() -> Bool {
        guard connectionCount >= settings.connections else { return true }
        if settings.speaks == .http2 { return closeIdleStreams() }
        // A connection that is kept for another server's requests.
        guard let server = servers.max(by: { $0.idle.count < $1.idle.count }), let oldest = server.idle.first else {
            return false
        }
        oldest.discard()
        return true
    }

    // MARK: - Waiting

    /// Removes a waiting call.
    func leave(_ call: UpstreamCall, _ place: UpstreamCall.QueuePlace) {
        call.placement = .unplaced
        waiting.remove(place.ticket)
    }

    /// Serves waiting calls at the end of the turn: the connection that makes room is within its own event.
    func serveWaitingSoon() {
        guard !waiting.isEmpty, !isServiceDue else { return }
        isServiceDue = true
        loop.whenTurnEnds { [self] in
            isServiceDue = false
            serveWaiting()
        }
    }

    private func serveWaiting() {
        // Each waiting call at most once: a call that fails may restart, and waits again.
        for _ in 0..<waiting.count {
            guard mayStart, let call = waiting.first, case .queued(let queuePlace) = call.placement else { return }
            do throws(UpstreamFailure) {
                let isFresh = !call.search.tried.isEmpty
                var granted = try place(for: call, isFresh: isFresh)
                if case .none = granted, isFresh {
                    // Room exists only at servers that have failed it before.
                    call.search.tried = ServerSet()
                    granted = try place(for: call, isFresh: true)
                }
                // The apparent room was none: the call keeps its place.
                if case .none = granted { return }
                waiting.remove(queuePlace.ticket)
                guard case .carrier(let carrier) = granted else { continue }
                call.began(on: carrier)
            } catch {
                leave(call, queuePlace)
                call.failed(error, again: .never)
            }
            call.finishEvent()
        }
    }

    /// Whether a server has room. Does not move the turn.
    private var mayStart: Bool {
        guard settings.speaks == .http11 else { return mayStartStream }
        var balancer = balancer
        guard balancer.choose(among: states, for: 0, at: loop.now) != nil else { return false }
        return connectionCount < settings.connections || idleCount > 0
    }

    /// Checks for room while calls wait. The end of an ejection makes room without any event.
    private func glanceAtWaiting() {
        serveWaiting()
        while let deadline = waiting.firstDeadline() {
            guard deadline <= loop.now else {
                waitingTimer?.start(after: min(deadline - loop.now, Self.glance))
                return
            }
            guard let call = waiting.popFirst() else { return }
            call.placement = .unplaced
            call.failed(isExhausted ? .exhausted(errno: EMFILE) : .waitingTimeout, again: .never)
            call.finishEvent()
        }
    }

    private static let glance = TimeSpan.milliseconds(100)
    /// The assumed duration of a lack of descriptors, longer than the time between two checks.
    private static let exhaustionTime = TimeSpan.milliseconds(250)

    // MARK: - Interface for connections

    func add(_ connection: UpstreamConnection) {
        if connection.isCheck { checkCount += 1 }
        if let slot = freeSlots.popLast() {
            connection.slot = slot
            connections[slot] = connection
        } else {
            connection.slot = connections.count
            connections.append(connection)
        }
    }

    /// Removes a request of a connection, in flight or waiting. Checks are not counted.
    func callEnded(on connection: UpstreamConnection) {
        guard !connection.isCheck else { return }
        assert(states[connection.server].busy > 0 && underWay > 0, "what has not begun cannot end")
        states[connection.server].busy -= 1
        underWay -= 1
        serveWaitingSoon()
    }

    /// Takes back a connection that can serve another call.
    func release(_ connection: HTTP1Connection) {
        servers[connection.server].idle.append(connection)
        idleCount += 1
        // The server's address may have changed meanwhile.
        let isStale = !servers[connection.server].has(connection.address)
        if isStale || idleCount > settings.idleConnections { connection.discard() }
    }

    /// Removes a connection that has closed itself.
    func remove(_ connection: UpstreamConnection, isIdle: Bool) {
        let server = servers[connection.server]
        server.open.removeAll { $0 === connection }
        if isIdle, let index = server.idle.firstIndex(where: { $0 === connection }) {
            server.idle.remove(at: index)
            idleCount -= 1
        }
        if connection.isCheck { checkCount -= 1 }
        connections[connection.slot] = nil
        freeSlots.append(connection.slot)
        serveWaitingSoon()
    }

    /// Closes idle connections and ends health checks. No request is in flight any more.
    public func close() {
        if case .open(let checks) = life { for check in checks { check.stop() } }
        life = .closed
        for server in servers {
            for connection in server.idle { connection.discard() }
            for connection in server.open where connection.isIdle { connection.discard() }
        }
    }
}

// MARK: - Addresses

extension UpstreamPool {
    /// Applies the new addresses of a name. New connections use them, idle connections to former addresses are closed,
    /// and requests in flight continue.
    public func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for place in servers.indices where settings.servers[place].resolved == server {
            servers[place].readdress(addresses)
            states[place].isResolved = !addresses.isEmpty
            // A copy: a discarded connection leaves the array.
            let idle = servers[place].idle
            for connection in idle where !servers[place].has(connection.address) { connection.discard() }
            let open = servers[place].open
            for connection in open where !servers[place].has(connection.address) { connection.retire() }
            guard case .open(let checks) = life, !checks.isEmpty, !addresses.isEmpty else { continue }
            checks[place].addressesCame()
        }
        serveWaitingSoon()
    }
}

// MARK: - Tunnels

// Tunnels occupy connections for an unlimited time, so they get only a share. The rest is for requests.
extension UpstreamPool {
    /// Reserves a tunnel.
    ///
    /// - Returns: whether one more tunnel may open. If so, `giveTunnelPlace` follows, once.
    public func takeTunnelPlace() -> Bool {
        guard heldTunnels < settings.tunnels else { return false }
        heldTunnels += 1
        return true
    }

    public func giveTunnelPlace() { heldTunnels -= 1 }
}

// MARK: - New connections

extension UpstreamPool {
    /// Opens a connection to `server`, or to another one if that fails at once.
    func connect<Connection: UpstreamConnection>(
        for call: UpstreamCall, to server: Int, by make: (Int, Int, consuming Socket) -> Connection
    ) throws(UpstreamFailure) -> Connection {
        var server = server
        var left = servers[server].addressCount
        while true {
            do throws(UpstreamFailure) {
                let socket = try openSocket(to: server, &left)
                let connection = make(server, left, socket)
                add(connection)
                return connection
            } catch {
                // The cause is not the server, and the next one would fail alike.
                guard error.kind != .exhausted else { throw error }
                server = try another(than: server, for: call, after: error)
                left = servers[server].addressCount
            }
        }
    }

    private func openSocket(to server: Int, _ left: inout Int) throws(UpstreamFailure) -> Socket {
        do throws(UpstreamFailure) {
            let socket = try servers[server].connect(&left, ceiling: settings.descriptorCeiling)
            supply = .sufficient
            return socket
        } catch {
            if error.kind == .exhausted { supply = .exhausted(until: loop.now + Self.exhaustionTime) }
            throw error
        }
    }

    /// Opens a connection for a health check, for a call that begins after that.
    func beginCheck(_ call: UpstreamCall, of server: Int) throws(UpstreamFailure) {
        var left = servers[server].addressCount
        let socket = try openSocket(to: server, &left)
        switch settings.speaks {
        case .http11:
            let connection = HTTP1Connection(
                pool: self, server: server, addressesLeft: left, socket: socket, isCheck: true)
            add(connection)
            connection.begin(call)
            call.began(on: .http1(connection))
        case .http2:
            let connection = HTTP2UpstreamConnection(
                pool: self, server: server, addressesLeft: left, socket: socket, isCheck: true)
            add(connection)
            // It waits: the server has not sent its SETTINGS.
            _ = connection.take(call)
        }
    }

    /// Opens another socket for a connection that has sent nothing of its call: to the server's next address, or to
    /// another server.
    ///
    /// - Parameter call: the call that decides about further servers. Nil for no other server.
    /// - Throws: if nothing is left to try, the most significant failure of the last server's addresses.
    func anotherSocket(
        for connection: UpstreamConnection, of call: UpstreamCall?, after failure: UpstreamFailure,
        _ attempts: inout ConnectAttempts
    ) throws(UpstreamFailure) -> Socket {
        var failure = failure
        while true {
            if attempts.addressesLeft > 0, loop.now < attempts.end {
                do throws(UpstreamFailure) {
                    let socket = try openSocket(to: connection.server, &attempts.addressesLeft)
                    connection.address = servers[connection.server].connectedAddress
                    return socket
                } catch {
                    failure = attempts.combine(error)
                }
            }
            guard let call, failure.kind != .exhausted, loop.now < attempts.end else {
                failed(connection.server, failure, isCheck: connection.isCheck)
                throw failure
            }
            let next = try another(than: connection.server, for: call, after: failure)
            states[connection.server].busy -= 1
            states[next].busy += 1
            servers[next].tally.counts.requests += 1
            connection.server = next
            call.search.lastServer = next
            attempts.moveOn(addressesLeft: servers[next].addressCount)
        }
    }

    private func another(
        than server: Int, for call: UpstreamCall, after failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        failed(server, failure, isCheck: false)
        return try next(after: server, for: call, failure)
    }

    /// Returns the next server after `server` has failed the call and the failure was recorded.
    func next(
        after server: Int, for call: UpstreamCall, _ failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        call.search.tried.insert(server)
        call.search.lastServer = server
        guard let next = choose(for: call.search) else { throw failure }
        return next
    }

    private func choose(for search: UpstreamCall.Search) -> Int? {
        balancer.choose(among: states, for: search.key, tried: search.tried, at: loop.now)
    }
}
