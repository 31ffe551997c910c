internal import EventLoop
internal import Registry
internal import Vocabulary

/// The traffic of counters to the database: waiting values, statements in progress, known devices and owed values.
///
/// A value is answered as committed only after the transaction that wrote it has ended. A row that was not written
/// differs from the assumed state, so its values are decided again. If the outcome of a statement is unknown, its
/// values count as spent but none is admitted.
final class CounterTraffic {
    private let limits: PostgreSQLSettings.Limits
    private let signal: (StoreSignal) -> Void
    private var pipeline: DatabasePipeline?
    private var epoch: RandomID
    private var waiting: [PendingCounter] = []
    private var busy: Set<DeviceID> = []
    private var known: ClockCache<DeviceID, KnownCounter>
    private var underWay = 0
    /// Values that are spent in memory but may be missing in the database.
    private(set) var owed: [DeviceID: [UInt32]] = [:]

    /// The maximum number of repeated decisions. Each repetition means that another gateway has just used the same
    /// device.
    private static let attempts = 4
    /// The number of devices with owed values above which the connection is reopened to write them.
    private static let owedLimit = 4_096

    init(_ limits: PostgreSQLSettings.Limits, epoch: RandomID, signal: @escaping (StoreSignal) -> Void) {
        self.limits = limits
        self.epoch = epoch
        self.signal = signal
        known = ClockCache(limit: limits.records)
    }

    var hasRoom: Bool { pipeline == nil || underWay < limits.depth }

    // MARK: - Calls by the store

    func begin(_ pipeline: DatabasePipeline) {
        known = ClockCache(limit: limits.records)
        self.pipeline = pipeline
    }

    /// Gives up all waiting values after the connection was lost. Statements in progress have been answered already.
    func end() {
        pipeline = nil
        for pending in waiting { giveUp(pending) }
        waiting = []
        busy = []
        underWay = 0
    }

    func change(to epoch: RandomID) { self.epoch = epoch }

    func owe(_ counter: UInt32, of device: DeviceID) { owed[device, default: []].append(counter) }

    /// Records that owed values were written.
    func paid(_ values: [DeviceID: [UInt32]]) {
        for (device, paid) in values {
            owed[device]?.removeFirst(paid.count)
            if owed[device]?.isEmpty == true { owed[device] = nil }
        }
    }

    /// Records the state of an active device that a look-up has found.
    func learn(_ device: DeviceID, _ counter: KnownCounter) {
        // A statement in progress has newer values than an earlier look-up.
        guard !busy.contains(device) else { return }
        var learned = counter
        if let before = known.use(device), before.standing == counter.standing {
            for key in before.active { learned.add(key) }
        }
        known.insert(device, learned)
    }

    func forget(_ device: DeviceID) { known.remove(device) }

    // MARK: - Values

    func add(_ entries: [CounterEntry], answer: @escaping (Int, CounterOutcome) -> Void) {
        let now = Instant.now
        for (index, entry) in entries.enumerated() {
            let pending = PendingCounter(entry: entry, since: now) { answer(index, $0) }
            if pipeline == nil { giveUp(pending) } else { waiting.append(pending) }
        }
        sendWaiting()
    }

    private func giveUp(_ pending: PendingCounter) {
        owe(pending.entry.counter, of: pending.entry.device)
        pending.answer(.storeUnavailable)
    }

    /// Sends as many values as possible.
    private func sendWaiting() {
        guard let pipeline, underWay < limits.depth, !waiting.isEmpty else { return }
        let due = Instant.now
        let (late, timely) = waiting.reduce(into: ([PendingCounter](), [PendingCounter]())) { split, pending in
            if due - pending.since > limits.queueing { split.0.append(pending) } else { split.1.append(pending) }
        }
        let plan = CounterPlan(timely, epoch: epoch, busy: busy, limit: limits.rows) { known.use($0) }
        waiting = plan.left
        for pending in late { giveUp(pending) }
        for (pending, outcome) in plan.decided { pending.answer(outcome) }
        if !plan.readings.isEmpty { read(plan.readings, pipeline) }
        if !plan.rows.isEmpty { write(plan.rows, pipeline) }
    }

    private func write(_ rows: [CounterPlan.Row], _ pipeline: DatabasePipeline) {
        begin(rows.map(\.device))
        let arguments: [SQLValue] = [
            .integers(rows.map(\.device.number)), .integers(rows.map(\.before.standing)),
            .integers(rows.map { Int64($0.before.window.highest) }), .bytesList(rows.map(\.before.window.bits)),
            .integers(rows.map { Int64($0.before.shown.rawValue) }),
            .integers(rows.map { Int64($0.after.window.highest) }), .bytesList(rows.map(\.after.window.bits)),
            .integers(rows.map { Int64($0.after.shown.rawValue) }), .bytes(epoch.bytes),
        ]
        pipeline.run(CounterStatements.commit, arguments) { [unowned self] outcome in
            ended(rows.map(\.device))
            switch outcome {
            case .done(let result): written(rows, result)
            case .refused(let fault) where fault.isPassing: decideAgain(rows.flatMap(\.pending))
            case .refused(let fault):
                for row in rows { row.pending.forEach(giveUp) }
                // The database cannot keep up. Reopening the connection writes the owed values.
                pipeline.lose("\(fault)")
            case .unknown: for row in rows { row.pending.forEach(giveUp) }
            }
            sendMore()
        }
    }

    private func written(_ rows: [CounterPlan.Row], _ result: DatabaseResult) {
        var devices: Set<Int64> = []
        for row in 0..<result.rows {
            if let device = try? result.integer(row, 0) { devices.insert(device) }
        }
        var committed = 0
        for row in rows {
            if devices.contains(row.device.number) {
                known.insert(row.device, row.after)
                committed += row.pending.count
                for pending in row.pending { pending.answer(.committed) }
            } else {
                // Another gateway has changed the device, so it is read again.
                known.remove(row.device)
                decideAgain(row.pending)
            }
        }
        if committed > 0 { signal(.committed(committed)) }
    }

    private func read(_ readings: [CounterPlan.Reading], _ pipeline: DatabasePipeline) {
        begin(readings.map(\.device))
        let arguments: [SQLValue] = [
            .integers(readings.map(\.device.number)), .bytesList(readings.map(\.key.bytes)),
        ]
        pipeline.run(CounterStatements.read, arguments) { [unowned self] outcome in
            ended(readings.map(\.device))
            switch outcome {
            case .done(let result):
                do { try found(readings, result) } catch { pipeline.lose("\(DatabaseFailure(error))") }
            case .refused(let fault) where fault.isPassing: decideAgain(readings.flatMap(\.pending))
            case .refused(let fault):
                for reading in readings { reading.pending.forEach(giveUp) }
                pipeline.lose("\(fault)")
            case .unknown: for reading in readings { reading.pending.forEach(giveUp) }
            }
            sendMore()
        }
    }

    private func found(_ readings: [CounterPlan.Reading], _ result: DatabaseResult) throws {
        var rows: [DeviceID: Int] = [:]
        for row in 0..<result.rows { rows[try result.device(row, 0, "counter")] = row }
        // All rows are read before any value is answered, because an unreadable one ends the connection.
        let states = try readings.map { reading in try rows[reading.device].map { try DeviceState(result, $0) } }
        var changes: [StoreChange] = []
        for (reading, state) in zip(readings, states) {
            guard let state, state.isBound else {
                reading.pending.forEach { $0.answer(.unknown) }
                continue
            }
            // Workers refuse values that other gateways have spent without a statement.
            changes.append(.window(state.counter.window, of: reading.device))
            if let refusal = state.refusal {
                reading.pending.forEach { $0.answer(refusal) }
            } else {
                known.insert(reading.device, state.counter)
                decideAgain(reading.pending)
            }
        }
        if !changes.isEmpty { signal(.changes(changes)) }
    }

    private struct DeviceState {
        let counter: KnownCounter
        let isBound: Bool
        let refusal: CounterOutcome?

        /// Reads a row of `CounterStatements.read`.
        init(_ result: DatabaseResult, _ row: Int) throws {
            counter = KnownCounter(
                window: try result.window(row, 2), shown: try result.shown(row, 4),
                standing: try result.integer(row, 5), active: [try result.key(row, 1, "binding")])
            isBound = try result.boolean(row, 7)
            let isRevoked = try result.boolean(row, 6)
            refusal = isRevoked ? .deviceRevoked : try result.boolean(row, 8) ? nil : .bindingEnded
        }
    }

    /// Decides values again, before later ones.
    private func decideAgain(_ pending: [PendingCounter]) {
        var kept: [PendingCounter] = []
        for var pending in pending {
            pending.attempts += 1
            if pending.attempts > 2 * Self.attempts || pipeline == nil {
                giveUp(pending)
            } else {
                kept.append(pending)
            }
        }
        waiting = kept + waiting
    }

    // MARK: - Statements in progress

    private func begin(_ devices: [DeviceID]) {
        underWay += 1
        busy.formUnion(devices)
    }

    private func ended(_ devices: [DeviceID]) {
        underWay -= 1
        busy.subtract(devices)
    }

    private func sendMore() {
        if owed.count > Self.owedLimit { pipeline?.lose("values that could not be written") }
        sendWaiting()
        if hasRoom { signal(.hasRoom) }
    }
}
