public import Bytes
public import Cryptography
public import EventLoop
internal import Glibc
internal import TLS

/// One worker's connections to one upstream: chooses servers, keeps connections, lets requests wait when there are none, and
/// remembers which servers fail.
///
/// How a connection comes about is in `UpstreamPool+Connecting`, how calls share one in `UpstreamPool+Streams`, what is thought of servers in `UpstreamPool+Health`, where they
/// are in `UpstreamPool+Addresses`, what tunnels may have of it in `UpstreamPool+Tunnels`.
public final class UpstreamPool {
    public let settings: UpstreamSettings
    let loop: Loop
    let buffers: BufferPool
    /// What the balancer looks at, and what else there is of each server, by place.
    var states: [ServerState] {
        @inline(__always) _read {
            var borrowed = keptStates.borrow()
            defer { keptStates.end(&borrowed) }
            yield borrowed.value
        }
        @inline(__always) _modify {
            var borrowed = keptStates.borrow()
            defer { keptStates.end(&borrowed) }
            yield &borrowed.value
        }
    }
    private var keptStates: Borrowable<[ServerState]>
    let servers: [UpstreamServer]
    var balancer: Balancer
    /// All connections, idle or not, by slot: who owns a connection from its first byte to its last.
    private var connections: [UpstreamConnection?] = []
    private var freeSlots: [Int] = []
    /// Of those, the ones that check servers: they count for no limit.
    private var checkCount = 0
    /// Of those, the ones that nobody uses.
    public internal(set) var idleCount: Int {
        get { storedIdleCount }
        set { storedIdleCount = newValue }
    }
    private var storedIdleCount = 0
    /// Requests that have begun, or wait for their connection to be there.
    private var underWay = 0
    /// Places of tunnels, open or about to be.
    var heldTunnels = 0
    private let waiting: WaitingQueue<UpstreamCall>
    private var waitingTimer: LoopTimer?
    private var isServingWaiting = false
    var exhaustionEnd = Instant(nanoseconds: .min)
    var checks: [HealthCheck] = []
    /// Called when a worker begins or ceases to use a server. Rarely.
    public var onHealthChange: ((String, ServerHealthChange) -> Void)?

    /// - Parameters:
    ///   - tallies: where each server is counted, in the order of `settings`.
    ///   - library: of the loop's thread.
    public init(
        loop: Loop, buffers: BufferPool, settings: UpstreamSettings, tallies: [ServerTally], library: LibraryContext
    ) throws(CryptographyError) {
        var tls: ClientContext?
        if let settings = settings.tls { tls = try ClientContext(settings, library: library) }
        self.loop = loop
        self.buffers = buffers
        self.settings = settings
        keptStates = Borrowable(
            settings.servers.map {
                ServerState(
                    name: $0.name, health: ServerHealth(ejection: settings.ejection, checks: settings.health),
                    isResolved: !$0.addresses.isEmpty)
            })
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
        // Of a configuration that was made ready and not taken: only checks can be under way.
        for connection in connections { connection?.abandon() }
    }

    /// Connections for requests that are open now.
    public var connectionCount: Int { connections.count - freeSlots.count - checkCount }
    /// Requests that wait for one.
    public var waitingCount: Int { waiting.count }

    // MARK: - Starting calls

    /// Why a call that began now could not be served, for want of room in this process; nil if it could. Asked before anything is
    /// spent for the request.
    public var shortage: UpstreamFailure? {
        if let limit = settings.requests, underWay + waiting.count >= limit { return .requestLimit }
        if waiting.isFull, !waiting.isEmpty { return isExhausted ? .exhausted(errno: EMFILE) : .connectionLimit }
        guard idleCount == 0, !servers.contains(where: { $0.open.contains { $0.hasRoom } }) else { return nil }
        // A new connection would be needed, which costs far more than this look.
        guard isExhausted || !Socket.canOpen(ceiling: settings.descriptorCeiling) else { return nil }
        return .exhausted(errno: EMFILE)
    }

    /// Whether the last connection could not be opened for want of descriptors or memory.
    private var isExhausted: Bool { loop.now < exhaustionEnd }

    /// Starts a call: the caller then writes the request and sends it.
    ///
    /// - Parameter key: whose request it is, for `Balance.device`.
    /// - Returns: nil if the call waits for a connection; `began(on:)` is called when it has one.
    public func start(
        _ call: UpstreamCall, for key: UInt64
    ) throws(UpstreamFailure) -> UpstreamCarrier? {
        call.key = key
        call.tried = ServerSet()
        call.lastServer = nil
        call.isPlaced = false
        call.waitingEnd = nil
        call.kept.reset()
        if let limit = settings.requests, underWay + waiting.count >= limit { throw .requestLimit }
        return try connectionOrWait(call, isFresh: false)
    }

    /// Starts a call once more that got no answer: on a new connection, and at another server if there is one.
    public func startAgain(_ call: UpstreamCall) throws(UpstreamFailure) -> UpstreamCarrier? {
        let others = states.indices.contains { states[$0].isResolved && !call.tried.contains($0) }
        if !others { call.tried = ServerSet() }
        call.waitingEnd = nil
        return try connectionOrWait(call, isFresh: true)
    }

    private func connectionOrWait(
        _ call: UpstreamCall, isFresh: Bool
    ) throws(UpstreamFailure) -> UpstreamCarrier? {
        // Who waits already comes first.
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
        let end = call.waitingEnd ?? loop.now + settings.waitingTimeout
        // It may have waited before, and a connection that it got then had no room for it: its waiting time does not
        // restart.
        guard loop.now < end else { throw .waitingTimeout }
        call.waitingEnd = end
        let isFirst = waiting.isEmpty
        call.queue = self
        call.ticket = waiting.append(call, until: loop.now + settings.waitingTimeout)
        if isFirst { waitingTimer?.start(after: min(settings.waitingTimeout, Self.glance)) }
    }

    /// What there is for a call that wants to begin.
    enum Place {
        case carrier(UpstreamCarrier)
        /// It waits for a server on its way, which begins it then.
        case awaited
        /// There is no connection, and none may be opened now.
        case none
    }

    private func place(for call: UpstreamCall, isFresh: Bool) throws(UpstreamFailure) -> Place {
        guard settings.speaks == .http11 else { return try streamPlace(for: call) }
        guard let server = balancer.choose(among: states, for: call.key, tried: call.tried, at: loop.now) else {
            return .none
        }
        // Those that it has kept for longer are hardly better than the one that has just broken.
        if isFresh {
            let oldest = servers[server].idle.first
            oldest?.discard()
        }
        while !isFresh, let connection = servers[server].idle.popLast() {
            idleCount -= 1
            // Its server may have closed it, or said more than its last response had: that would be taken for the next one.
            // The loop may not have seen that yet, whatever order events come in.
            guard connection.isReusable else {
                // Not to be looked for among the idle ones any more.
                connection.phase = .head
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
                HTTP1Connection(pool: self, server: $0, socket: $1, isCheck: false)
            }
        } catch {
            // Descriptors come back as connections end: it waits, as where the pool has none left.
            guard error.kind == .exhausted else { throw error }
            return .none
        }
        callBegins(call, at: connection.server)
        connection.begin(call)
        return .carrier(.http1(connection))
    }

    func callBegins(_ call: UpstreamCall, at server: Int) {
        call.lastServer = server
        call.isPlaced = true
        states[server].busy += 1
        underWay += 1
        servers[server].tally.counts.requests += 1
    }

    /// A call whose connection did not come about, or has no room for it after all.
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

    /// - Returns: whether one more connection may be opened.
    func makeRoom() -> Bool {
        guard connectionCount >= settings.connections else { return true }
        if settings.speaks == .http2 { return closeIdleStreams() }
        // One that is kept for another server's requests.
        guard let server = servers.max(by: { $0.idle.count < $1.idle.count }), let oldest = server.idle.first else {
            return false
        }
        oldest.discard()
        return true
    }

    // MARK: - Waiting

    /// A call does not wait any more.
    func leave(_ call: UpstreamCall) {
        call.queue = nil
        waiting.remove(call.ticket)
    }

    /// When all events that were ready are served: the connection that makes room is in the middle of its own event.
    func serveWaitingSoon() {
        guard !waiting.isEmpty, !isServingWaiting else { return }
        isServingWaiting = true
        loop.whenTurnEnds { [self] in
            isServingWaiting = false
            serveWaiting()
        }
    }

    private func serveWaiting() {
        // Each of those that wait now at most once: one that fails may start again, and waits then.
        for _ in 0..<waiting.count {
            guard mayStart, let call = waiting.first else { return }
            do throws(UpstreamFailure) {
                let isFresh = !call.tried.isEmpty
                var granted = try place(for: call, isFresh: isFresh)
                if case .none = granted, isFresh {
                    // There is room only where it has failed before.
                    call.tried = ServerSet()
                    granted = try place(for: call, isFresh: true)
                }
                // What looked like room was none: it keeps its place.
                if case .none = granted { return }
                leave(call)
                guard case .carrier(let carrier) = granted else { continue }
                call.began(on: carrier)
            } catch {
                leave(call)
                call.failed(error, again: .never)
            }
            call.finishEvent()
        }
    }

    /// Whether some server has room. Asked without moving the turn.
    private var mayStart: Bool {
        guard settings.speaks == .http11 else { return mayStartStream }
        var balancer = balancer
        guard balancer.choose(among: states, for: 0, at: loop.now) != nil else { return false }
        return connectionCount < settings.connections || idleCount > 0
    }

    /// While somebody waits. What room time alone makes, by the end of an ejection, is announced by nobody.
    private func glanceAtWaiting() {
        serveWaiting()
        while let deadline = waiting.firstDeadline() {
            guard deadline <= loop.now else {
                waitingTimer?.start(after: min(deadline - loop.now, Self.glance))
                return
            }
            guard let call = waiting.popFirst() else { return }
            call.queue = nil
            call.failed(isExhausted ? .exhausted(errno: EMFILE) : .waitingTimeout, again: .never)
            call.finishEvent()
        }
    }

    private static let glance = TimeSpan.milliseconds(100)
    /// For how long a lack of descriptors is taken to last, longer than from one glance to the next.
    static let exhaustionTime = TimeSpan.milliseconds(250)

    // MARK: - What connections say

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

    /// A request that was under way on the connection, or waited for it, is there no more. One that checks a server was never counted.
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
        // Its server may have moved meanwhile.
        let isStale = !servers[connection.server].has(connection.address)
        if isStale || idleCount > settings.idleConnections { connection.discard() }
    }

    /// Lets go of a connection that has closed itself.
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

    /// Nothing is under way any more: closes the connections nobody uses, and asks no server how it is.
    public func close() {
        for check in checks { check.stop() }
        checks = []
        for server in servers {
            for connection in server.idle { connection.discard() }
            for connection in server.open where connection.isIdle { connection.discard() }
        }
    }
}

/// Where servers are, if they are known by a name.
extension UpstreamPool {
    /// A name was resolved, and leads elsewhere than before: new connections go there, those that nobody uses and that lead
    /// where the server is no more are closed, and requests under way go on.
    public func readdress(_ server: NamedServer, to addresses: [SocketAddress]) {
        for place in servers.indices where settings.servers[place].resolved == server {
            servers[place].readdress(addresses)
            states[place].isResolved = !addresses.isEmpty
            // A copy: a discarded connection leaves the array.
            let idle = servers[place].idle
            for connection in idle where !servers[place].has(connection.address) { connection.discard() }
            let open = servers[place].open
            for connection in open where !servers[place].has(connection.address) { connection.retire() }
            // None once the pool is closed.
            if place < checks.count, !addresses.isEmpty { checks[place].addressesCame() }
        }
        serveWaitingSoon()
    }
}

/// Connections that become tunnels do not come back for as long as somebody likes, so they may have no more than a share of them:
/// the rest is for requests.
extension UpstreamPool {
    /// - Returns: whether one more tunnel may be on its way. If so, `giveTunnelPlace` follows, once.
    public func takeTunnelPlace() -> Bool {
        guard heldTunnels < settings.tunnels else { return false }
        heldTunnels += 1
        return true
    }

    public func giveTunnelPlace() { heldTunnels -= 1 }
}

/// New connections, and what becomes of a call whose connection did not come about.
extension UpstreamPool {
    /// Opens a connection to `server`, or to another one if that fails at once.
    func connect<Connection: UpstreamConnection>(
        for call: UpstreamCall, to server: Int, by make: (Int, consuming Socket) -> Connection
    ) throws(UpstreamFailure) -> Connection {
        var server = server
        var left = servers[server].addressCount
        while true {
            do throws(UpstreamFailure) {
                let socket = try openSocket(to: server, &left)
                let connection = make(server, socket)
                connection.addressesLeft = left
                connection.address = servers[server].connectedAddress
                add(connection)
                return connection
            } catch {
                // It says nothing of the server, and would be the same at the next one.
                guard error.kind != .exhausted else { throw error }
                server = try another(than: server, for: call, after: error)
                left = servers[server].addressCount
            }
        }
    }

    private func openSocket(to server: Int, _ left: inout Int) throws(UpstreamFailure) -> Socket {
        do throws(UpstreamFailure) {
            let socket = try servers[server].connect(&left, ceiling: settings.descriptorCeiling)
            exhaustionEnd = Instant(nanoseconds: .min)
            return socket
        } catch {
            if error.kind == .exhausted { exhaustionEnd = loop.now + Self.exhaustionTime }
            throw error
        }
    }

    /// Opens a connection that asks how a server is, for a call that begins when there is one.
    func beginCheck(_ call: UpstreamCall, of server: Int) throws(UpstreamFailure) {
        var left = servers[server].addressCount
        let socket = try openSocket(to: server, &left)
        switch settings.speaks {
        case .http11:
            let connection = HTTP1Connection(pool: self, server: server, socket: socket, isCheck: true)
            addCheck(connection, left)
            connection.begin(call)
            call.began(on: .http1(connection))
        case .http2:
            let connection = HTTP2UpstreamConnection(pool: self, server: server, socket: socket, isCheck: true)
            addCheck(connection, left)
            // It waits: the server has not shown itself.
            _ = connection.take(call)
        }
    }

    private func addCheck(_ connection: UpstreamConnection, _ left: Int) {
        connection.addressesLeft = left
        connection.address = servers[connection.server].connectedAddress
        add(connection)
    }

    /// Another socket for a connection that has sent nothing of its call: to the server's next address, or to another
    /// server.
    ///
    /// - Parameter call: which of the servers may be asked for it; nil for no other one.
    /// - Throws: if there is nothing left to try, which of the failures at the last server's addresses says most.
    func anotherSocket(
        for connection: UpstreamConnection, of call: UpstreamCall?, after failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Socket {
        var failure = failure
        if !connection.isConnecting && connection.callsServed > 0 {
            // The server has closed a connection that it had kept, which says nothing of it.
            connection.addressesLeft = servers[connection.server].addressCount
            connection.connectFailure = nil
        } else {
            failure = connection.connectFailure?.orFurther(failure) ?? failure
            connection.connectFailure = failure
        }
        while true {
            if connection.addressesLeft > 0, loop.now < connection.connectEnd {
                do throws(UpstreamFailure) {
                    let socket = try openSocket(to: connection.server, &connection.addressesLeft)
                    connection.address = servers[connection.server].connectedAddress
                    return socket
                } catch {
                    failure = connection.connectFailure?.orFurther(error) ?? error
                    connection.connectFailure = failure
                }
            }
            guard let call, failure.kind != .exhausted, loop.now < connection.connectEnd else {
                failed(connection.server, failure, isCheck: connection.isCheck)
                throw failure
            }
            let next = try another(than: connection.server, for: call, after: failure)
            states[connection.server].busy -= 1
            states[next].busy += 1
            servers[next].tally.counts.requests += 1
            connection.server = next
            // Each server is judged by its own.
            connection.connectFailure = nil
            call.lastServer = next
            connection.addressesLeft = servers[next].addressCount
        }
    }

    private func another(
        than server: Int, for call: UpstreamCall, after failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        failed(server, failure, isCheck: false)
        return try next(after: server, for: call, failure)
    }

    /// The server to be asked next, where `server` has failed the call and was judged for it.
    func next(
        after server: Int, for call: UpstreamCall, _ failure: UpstreamFailure
    ) throws(UpstreamFailure) -> Int {
        call.tried.insert(server)
        call.lastServer = server
        guard let next = balancer.choose(among: states, for: call.key, tried: call.tried, at: loop.now) else {
            throw failure
        }
        return next
    }
}
