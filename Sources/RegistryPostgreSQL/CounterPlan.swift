internal import EventLoop
internal import Registry
internal import Vocabulary

/// A counter value that waits for the database.
struct PendingCounter {
    let entry: CounterEntry
    let since: Instant
    let answer: (CounterOutcome) -> Void
    /// The number of decisions that turned out to be outdated.
    var attempts = 0
}

/// The next statements for waiting values: one that writes a row for each known device, and one that reads the others.
///
/// The values of a device keep their order, and only one statement at a time contains any of them.
struct CounterPlan {
    struct Row {
        let device: DeviceID
        let before: KnownCounter
        var after: KnownCounter
        var pending: [PendingCounter]
    }

    struct Reading {
        let device: DeviceID
        let key: KeyID
        var pending: [PendingCounter]
    }

    private(set) var rows: [Row] = []
    private(set) var readings: [Reading] = []
    /// Values that must wait for a statement in progress, or for room.
    private(set) var left: [PendingCounter] = []
    /// Values that need no statement.
    private(set) var decided: [(pending: PendingCounter, outcome: CounterOutcome)] = []

    private var rowOfDevice: [DeviceID: Int] = [:]
    private var readingOfDevice: [DeviceID: Int] = [:]
    /// Devices with a waiting value. Their later values must wait too.
    private var held: Set<DeviceID> = []

    /// Plans the next statements.
    ///
    /// - Parameters:
    ///   - waiting: The values in the order of their arrival.
    ///   - busy: Devices with values in a statement in progress.
    ///   - limit: The maximum number of devices in a statement.
    ///   - known: Returns what is known of a device.
    init(
        _ waiting: [PendingCounter], epoch: RandomID, busy: Set<DeviceID>, limit: Int,
        known: (DeviceID) -> KnownCounter?
    ) {
        for pending in waiting {
            let device = pending.entry.device
            if pending.entry.epoch != epoch {
                decided.append((pending, .epochChanged))
            } else if busy.contains(device) || held.contains(device) {
                hold(pending)
            } else if let index = readingOfDevice[device] {
                // Values with another binding are read after this one.
                if readings[index].key == pending.entry.binding {
                    readings[index].pending.append(pending)
                } else {
                    hold(pending)
                }
            } else if let index = rowOfDevice[device] {
                add(pending, to: index)
            } else if let known = known(device) {
                guard rows.count < limit else {
                    hold(pending)
                    continue
                }
                begin(pending, known)
            } else {
                read(pending, limit)
            }
        }
        // All gateways lock rows in this order, which prevents deadlocks.
        rows.sort { $0.device < $1.device }
        rows.removeAll { $0.pending.isEmpty }
    }

    private mutating func begin(_ pending: PendingCounter, _ known: KnownCounter) {
        guard known.active.contains(pending.entry.binding) else { return read(pending, .max) }
        let device = pending.entry.device
        rowOfDevice[device] = rows.count
        rows.append(Row(device: device, before: known, after: known, pending: []))
        add(pending, to: rows.count - 1)
    }

    private mutating func add(_ pending: PendingCounter, to index: Int) {
        switch rows[index].after.decide(pending.entry) {
        case .planned: rows[index].pending.append(pending)
        case .refused(let outcome): decided.append((pending, outcome))
        case .unknown: hold(pending)
        }
    }

    private mutating func read(_ pending: PendingCounter, _ limit: Int) {
        guard readings.count < limit else { return hold(pending) }
        readingOfDevice[pending.entry.device] = readings.count
        readings.append(Reading(device: pending.entry.device, key: pending.entry.binding, pending: [pending]))
    }

    private mutating func hold(_ pending: PendingCounter) {
        held.insert(pending.entry.device)
        left.append(pending)
    }
}

/// The state of a device in the database when this gateway last read or wrote it.
///
/// Values are decided against it, and the database then checks that it is current. Only devices that may be served are
/// kept.
struct KnownCounter {
    var window: CounterWindow
    var shown: ShownExtensions
    /// The standing of the device's row. The other properties are valid as long as the row has this standing.
    let standing: Int64
    /// Some keys with active bindings, the latest last.
    var active: [KeyID]

    private static let activeLimit = 8

    /// Adds a key with an active binding.
    mutating func add(_ key: KeyID) {
        guard !active.contains(key) else { return }
        if active.count == Self.activeLimit { active.removeFirst() }
        active.append(key)
    }

    enum Decision: Equatable {
        /// The value is spent here and must be written.
        case planned
        case refused(CounterOutcome)
        /// The binding is not known.
        case unknown
    }

    /// Decides on a value. It refuses only values that no change by others could make acceptable.
    mutating func decide(_ entry: CounterEntry) -> Decision {
        guard active.contains(entry.binding) else { return .unknown }
        let outcome = window.spend(entry.counter, mode: entry.mode, showing: entry.shown, after: &shown)
        return outcome == .committed ? .planned : .refused(outcome)
    }
}
