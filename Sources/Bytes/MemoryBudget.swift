internal import Synchronization

/// How close the process is to its memory budget. Each step includes those before it.
public enum MemoryPressure: Int, CaseIterable, Comparable, Sendable {
    case none
    /// From 80 %: nothing more is read from the clients that hold the most.
    case pausesReading
    /// From 85 %: a connection of HTTP/2 begins few streams.
    case refusesStreams
    /// From 90 %: the connections of the client that holds the most are closed.
    case closesConnections
    /// From 95 %: connections are not accepted.
    case refusesConnections

    /// The share of the budget at which the step begins, in hundredths.
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

/// The memory that the whole process may use, and how much of it is in use: the bytes that its loops account for, and
/// the rest of the resident memory as it was measured last.
public final class MemoryBudget: Sendable {
    private let limitBytes: Atomic<Int>
    private let accountedBytes = Atomic<Int>(0)
    private let otherBytes = Atomic<Int>(0)
    private let meterCount = Atomic<Int>(0)
    private let actionCounts: InlineArray<4, Atomic<Int>> = InlineArray { _ in Atomic(0) }

    /// - Parameter limit: in bytes.
    public init(limit: Int) {
        limitBytes = Atomic(limit)
    }

    /// A budget that is never used up: for tools and tests.
    public static var unlimited: MemoryBudget { MemoryBudget(limit: .max / 128) }

    /// Bytes that the process may use.
    public var limit: Int {
        get { limitBytes.load(ordering: .relaxed) }
        set { limitBytes.store(newValue, ordering: .relaxed) }
    }

    /// Bytes that loops account for.
    public var accounted: Int { accountedBytes.load(ordering: .relaxed) }
    /// Bytes of the process beside those, as measured last.
    public var other: Int { otherBytes.load(ordering: .relaxed) }
    public var used: Int { accounted + other }

    public var pressure: MemoryPressure {
        let percent = used / (limit / 100)
        return MemoryPressure.allCases.last { percent >= $0.threshold } ?? .none
    }

    /// Loops that share the budget.
    public var loops: Int { meterCount.load(ordering: .relaxed) }

    func count(meters: Int) { meterCount.add(meters, ordering: .relaxed) }
    func add(_ bytes: Int) { accountedBytes.add(bytes, ordering: .relaxed) }

    /// Takes the resident size of the process into account: what exceeds the accounted bytes counts too.
    public func measured(resident: Int) { otherBytes.store(max(0, resident - accounted), ordering: .relaxed) }

    // MARK: - Actions

    /// What was done because of the pressure.
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

/// What one loop uses of the budget.
///
/// Not `Sendable`: it belongs to the loop's thread, so that adding to it costs a few instructions. The budget learns of
/// steps of 64 KiB.
public final class MemoryMeter {
    public let budget: MemoryBudget
    /// Bytes of this loop.
    public var used: Int { bytes }
    private var bytes = 0
    private var reported = 0
    /// The pressure when the budget was looked at last.
    public var pressure: MemoryPressure { lastPressure }
    private var lastPressure = MemoryPressure.none
    /// Called when memory was taken and there is pressure: perhaps within an event of a connection.
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

    /// - Parameter change: in bytes; negative for what was given back.
    public func add(_ change: Int) {
        bytes += change
        if abs(bytes - reported) >= Self.step { report() }
    }

    private func report() {
        let hasGrown = bytes > reported
        flush()
        if hasGrown, lastPressure > .none { pressed?() }
    }

    /// Tells the budget of the last bytes, and looks at it.
    public func flush() {
        budget.add(bytes - reported)
        reported = bytes
        refresh()
    }

    /// Looks at the budget.
    public func refresh() { lastPressure = budget.pressure }
}
