public import Bytes
public import EventLoop

/// Keeps one loop within the memory budget of the process.
///
/// Under pressure the clients that hold the most are no longer read from; then connections of HTTP/2 begin few
/// streams; then the connections of the client that holds the most are closed; then none are accepted.
/// `MemoryPressure` has the thresholds. What the clients hold is computed only under pressure, so the data path does
/// not pay for it.
public final class MemoryRelief {
    private let loop: Loop
    private let pool: BufferPool
    private let acceptors: () -> [Acceptor]
    private var isDue = false
    private var paused: [ServerConnection] = []
    private var timer: LoopTimer?

    private var looks = 0

    /// The interval of checks, also of a loop that is idle while others use the memory.
    private static let interval = TimeSpan.milliseconds(500)
    private static let intervalUnderPressure = TimeSpan.milliseconds(50)
    /// Blocks that were unused during so many checks go back to the allocator.
    private static let looksBeforeRelease = 20
    /// A client that holds at least one part in so many of what the worker accounts for is not read from.
    private static let largePart = 16
    /// Only the memory of connections can be relieved. If they hold at most one part in so many of the budget, none is
    /// closed.
    private static let relievablePart = 16

    /// - Parameters:
    ///   - pool: The pool of the acceptors, whose meter knows the budget.
    ///   - acceptors: Returns all acceptors of the loop.
    public init(loop: Loop, pool: BufferPool, acceptors: @escaping () -> [Acceptor]) {
        self.loop = loop
        self.pool = pool
        self.acceptors = acceptors
        timer = LoopTimer(loop: loop, startsIn: Self.interval) { [unowned self] in look() }
        pool.meter.relieve = { [unowned self] in relieve() }
        pool.meter.pressed = { [unowned self] in
            guard !isDue else { return }
            isDue = true
            loop.whenTurnEnds { [unowned self] in
                isDue = false
                relieve()
                timer?.start(after: Self.intervalUnderPressure)
            }
        }
    }

    private var meter: MemoryMeter { pool.meter }

    private struct Holding {
        var bytes = 0
        var connections: [(connection: ServerConnection, bytes: Int)] = []
    }

    private func look() {
        relieve()
        looks += 1
        if looks.isMultiple(of: Self.looksBeforeRelease) { pool.releaseUnneeded() }
        timer?.start(after: meter.pressure > .none ? Self.intervalUnderPressure : Self.interval)
    }

    /// Measures the pressure and acts on it.
    private func relieve() {
        meter.refresh()
        if meter.pressure > .none {
            pool.releaseAll()
            meter.refresh()
        }
        guard meter.pressure > .none else { return resume() }
        let holdings = holdings
        pause(holdings)
        if meter.pressure >= .closesConnections { closeLargest(holdings) }
    }

    private var holdings: [Int: Holding] {
        var holdings: [Int: Holding] = [:]
        for acceptor in acceptors() {
            acceptor.forEachConnection { connection in
                let bytes = connection.footprint
                holdings[connection.holder, default: Holding()].bytes += bytes
                holdings[connection.holder, default: Holding()].connections.append((connection, bytes))
            }
        }
        return holdings
    }

    private func pause(_ holdings: [Int: Holding]) {
        let large = max(pool.blockSize * 8, meter.used / Self.largePart)
        for holding in holdings.values where holding.bytes >= large {
            for (connection, _) in holding.connections where !connection.isPaused {
                connection.pause(true)
                guard connection.isPaused else { continue }
                paused.append(connection)
                meter.budget.count(.readingPaused)
            }
        }
    }

    private func resume() {
        for connection in paused where connection.isOpen { connection.pause(false) }
        paused.removeAll()
    }

    /// Closes connections of the holder with the most bytes, the largest first, then of the next holder, until memory
    /// suffices to accept and serve others.
    private func closeLargest(_ holdings: [Int: Holding]) {
        let budget = meter.budget
        // The other workers hold more, so they close connections.
        guard meter.used * budget.loops >= budget.accounted || meter.pressure >= .refusesConnections else { return }
        guard budget.accounted > budget.limit / Self.relievablePart else { return }
        for holding in holdings.values.sorted(by: { $0.bytes > $1.bytes }) {
            for (connection, _) in holding.connections.sorted(by: { $0.bytes > $1.bytes }) {
                meter.flush()
                guard meter.pressure >= .refusesStreams else { return }
                budget.count(.connectionClosed)
                connection.acceptor.application.connectionRefused(connection, .memory)
                connection.abort()
                pool.releaseAll()
            }
        }
    }
}

/// Estimates of the bytes that a client connection takes without the blocks of its buffers and the memory of nghttp2:
/// mostly OpenSSL's. The measured resident memory corrects them.
enum MemoryCost {
    /// During a TLS handshake.
    static let handshake = 48 * 1024
    static let connection = 24 * 1024
    /// A stream of HTTP/2 and its exchange.
    static let stream = 4 * 1024
}
