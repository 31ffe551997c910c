internal import EventLoop
internal import Vocabulary

/// A counter value on its way to the database.
struct PendingCounter {
    let entry: CounterEntry
    let since: Instant
    let answer: (CounterOutcome) -> Void
    /// How often it was decided on what was not so any more.
    var attempts = 0
}

/// What is sent next of the values that wait: one statement that writes, with a row for each device whose standing is known, and
/// one that reads, for those of which it is not. The values of a device keep their order, and only one statement at a time
/// has any of them.
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
    /// What has to wait for a statement under way, or for room.
    private(set) var left: [PendingCounter] = []
    /// What needs no statement.
    private(set) var decided: [(pending: PendingCounter, outcome: CounterOutcome)] = []

    private var rowOfDevice: [DeviceID: Int] = [:]
    private var readingOfDevice: [DeviceID: Int] = [:]
    /// Devices of which a value has to wait, and so the later ones too.
    private var held: Set<DeviceID> = []

    /// - Parameters:
    ///   - waiting: in the order in which they came.
    ///   - busy: devices that a statement under way has values of.
    ///   - limit: devices in one statement.
    ///   - known: what is known of a device; nil if nothing is.
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
                // Those of another binding are read after this one.
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
        // In the order in which every gateway locks them.
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

/// What the database said of a device when this gateway last looked or wrote: what a value is decided against before the
/// database decides whether all of it is still so. Of devices that may come; others are looked at each time.
struct KnownCounter {
    var window: CounterWindow
    var shown: ShownExtensions
    /// Of the device's row: whatever else is here holds for as long as the row has this number.
    let standing: Int64
    /// Keys whose binding is active, the latest last; not all of them.
    var active: [KeyID]

    private static let activeLimit = 8

    /// - Parameter key: of an active binding.
    mutating func add(_ key: KeyID) {
        guard !active.contains(key) else { return }
        if active.count == Self.activeLimit { active.removeFirst() }
        active.append(key)
    }

    enum Decision: Equatable {
        /// The value is spent here, and to be written.
        case planned
        case refused(CounterOutcome)
        /// Nothing is known of the binding.
        case unknown
    }

    /// Refuses only what stays refused, whatever others do meanwhile.
    mutating func decide(_ entry: CounterEntry) -> Decision {
        guard active.contains(entry.binding) else { return .unknown }
        guard entry.shown.isSuperset(of: shown) else { return .refused(.extensionWithheld) }
        switch window.accept(entry.counter, mode: entry.mode) {
        case .replayed: return .refused(.replayed)
        case .late: return .refused(.late(highest: window.highest))
        case .accepted:
            shown.formUnion(entry.shown)
            return .planned
        }
    }
}
