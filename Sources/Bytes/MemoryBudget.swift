internal import Synchronization

/// The memory pressure of the process. Each level includes those before it.
public enum MemoryPressure: Int, CaseIterable, Comparable, Sendable {
    case none
    /// From 80 %: no more is read from the clients that hold the most.
    case pausesReading
    /// From 85 %: an HTTP/2 connection begins few streams.
    case refusesStreams
    /// From 90 %: the connections of the client that holds the most are closed.
    case closesConnections
    /// From 95 %: no connections are accepted.
    case refusesConnections

    /// The share of the budget at which the level begins, in hundredths.
    var threshold: Int {
        switch self {
        case .none: 0
        case .pausesReading: 80
        case .refusesStreams: 85
        case .closesConnections: 90
        case .refusesConnections: 95
        }
    }

    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// The memory limit of the whole process and its present use. The use is the sum of the bytes that loops account for
/// and of the remaining resident memory as last measured.
public final class MemoryBudget: Sendable {
    private let limitBytes: Atomic<Int>
    private let accountedBytes = Atomic<Int>(0)
    private let otherBytes = Atomic<Int>(0)
    private let meterCount = Atomic<Int>(0)
    private let actionCounts: InlineArray<4, Atomic<Int>> = InlineArray { _ in Atomic(0) }

    /// Creates a budget.
    ///
    /// - Parameter limit: the limit in bytes.
    public init(limit: Int) {
        limitBytes = Atomic(limit)
    }

    /// A budget that is never exhausted, for tools and tests.
    public static var unlimited: MemoryBudget { MemoryBudget(limit: .max / 128) }

    /// The limit in bytes.
    public var limit: Int {
        get { limitBytes.load(ordering: .relaxed) }
        set { limitBytes.store(newValue, ordering: .relaxed) }
    }

    /// The bytes that loops account for.
    public var accounted: Int { accountedBytes.load(ordering: .relaxed) }
    /// The other bytes of the process, as last measured.
    public var other: Int { otherBytes.load(ordering: .relaxed) }
    public var used: Int { accounted + other }

    public var pressure: MemoryPressure {
        let percent = used / (limit / 100)
        return MemoryPressure.allCases.last { percent >= $0.threshold } ?? .none
    }

    /// The number of loops that share the budget.
    public var loops: Int { meterCount.load(ordering: .relaxed) }

    func count(meters: Int) { meterCount.add(meters, ordering: .relaxed) }
    func add(_ bytes: Int) { accountedBytes.add(bytes, ordering: .relaxed) }

    /// Stores the resident size of the process, of which the bytes beyond the accounted ones count too.
    public func measured(resident: Int) { otherBytes.store(max(0, resident - accounted), ordering: .relaxed) }

    // MARK: - Actions

    /// A measure taken because of the pressure.
    public enum Action: Int, CaseIterable, Sendable {
        case readingPaused
        case streamRefused
        case connectionClosed
        case connectionRefused

        /// The label in metrics.
        public var name: String {
            switch self {
            case .readingPaused: "reading_paused"
            case .streamRefused: "stream_refused"
            case .connectionClosed: "connection_closed"
            case .connectionRefused: "connection_refused"
            }
        }
    }

    public func count(_ action: Action) { actionCounts[action.rawValue].add(1, ordering: .relaxed) }
    public func count(of action: Action) -> Int { actionCounts[action.rawValue].load(ordering: .relaxed) }
}

/// The use of the budget by one loop.
///
/// Not `Sendable`: it belongs to the loop's thread, so an addition costs a few instructions. The budget learns of it in
/// steps of 64 KiB.
public final class MemoryMeter {
    public let budget: MemoryBudget
    /// The bytes of this loop.
    public var used: Int { bytes }
    private var bytes = 0
    private var reported = 0
    /// The pressure at the last check of the budget.
    public var pressure: MemoryPressure { lastPressure }
    private var lastPressure = MemoryPressure.none
    /// Called when a check of the budget finds pressure, perhaps within an event of a connection.
    public var pressed: (() -> Void)?
    /// Gives memory back at once, where that is possible. Not to be called within an event of a connection.
    public var relieve: (() -> Void)?

    private static let step = 64 * 1024

    public init(_ budget: MemoryBudget = .unlimited) {
        self.budget = budget
        budget.count(meters: 1)
    }

    deinit {
        budget.add(-reported)
        budget.count(meters: -1)
    }

    /// Adds to the bytes of this loop.
    ///
    /// - Parameter change: the change in bytes, negative for released memory.
    public func add(_ change: Int) {
        bytes += change
        if abs(bytes - reported) >= Self.step { report() }
    }

    private func report() {
        let hasGrown = bytes > reported
        flush()
        if hasGrown, lastPressure > .none { pressed?() }
    }

    /// Passes the last bytes to the budget, and checks it.
    public func flush() {
        budget.add(bytes - reported)
        reported = bytes
        refresh()
    }

    /// Checks the budget.
    public func refresh() { lastPressure = budget.pressure }
}
