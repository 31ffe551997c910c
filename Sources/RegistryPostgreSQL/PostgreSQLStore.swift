internal import EventLoop
public import Registry
internal import RevocationJournal
internal import Vocabulary

/// The registry in PostgreSQL for the store's thread.
///
/// Counters, look-ups and changes of other gateways use a pipeline on one connection. Operations that may wait for
/// locks use another connection on the database thread. After an unexpected event both connections are closed, and
/// reopened after a growing pause with all checks of the first opening.
final class PostgreSQLStore: StoreBackend {
    private enum State {
        /// Both connections are open, but due bindings have not ended yet.
        case recovering
        case serving
        /// The connections are reopened at a time. Nil while that is in progress.
        case failed(until: Instant?)
    }

    let settings: PostgreSQLSettings
    private(set) var identity: StoreIdentity
    private let access: DatabaseAccess
    private let reports: Mailbox<DatabaseThread.Report>
    private let databaseThread: DatabaseThread
    private var receiver: MailboxReceiver<DatabaseThread.Report>?
    private var loop: Loop?
    var signal: (StoreSignal) -> Void = { _ in }

    private var state = State.recovering
    /// Whether anything was answered yet. Later changes must then be signalled.
    private var wasServing = false
    private var failures = 0
    private(set) var time: Int64 = 0
    private var isExpiring = false
    /// The owed values that the database thread is writing.
    private var paying: [DeviceID: [UInt32]] = [:]

    private(set) var pipeline: DatabasePipeline?
    private(set) var traffic: CounterTraffic?
    private var finding = 0
    private var commands: [Int: (RegistryCommand, (Result<RegistryReply, StoreError>) -> Void)] = [:]
    private var tickets = 0
    var feed = ChangeFeed(position: 0)
    private var lineage = ""
    /// The number of the epoch at the last look.
    var epochNumber: Int64 = 0
    var logPosition = LogPosition(durable: 0)

    private static let findLimit = 64

    /// Opens the store. Creates the tables if there are none and there never were any. Blocks.
    init(_ settings: PostgreSQLSettings) throws(StoreOpenError) {
        self.settings = settings
        let wasThere = try settings.witness?.knowsStore() ?? false
        let witness = try settings.witness.map { settings throws(StoreOpenError) in try Witness(settings) }
        access = try DatabaseAccess(
            settings, witness, making: !wasThere || settings.witness?.acceptsLostStore == true)
        if wasThere, access.isMade { settings.witness?.notice(.storeMade(settings.name)) }
        identity = access.identity
        do {
            reports = try Mailbox(limit: .max)
            databaseThread = try DatabaseThread(settings, reports: reports, access: access, witness: witness)
        } catch {
            throw .failed(path: settings.name, detail: error.text)
        }
    }

    var isAvailable: Bool { if case .failed = state { false } else { true } }

    var isServing: Bool { if case .serving = state { true } else { false } }

    var takesBatch: Bool {
        switch state {
        case .recovering: false
        case .serving: traffic?.hasRoom ?? false
        case .failed: true
        }
    }

    var takesLookup: Bool {
        switch state {
        case .recovering: false
        case .serving: finding < Self.findLimit
        case .failed: true
        }
    }

    func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void) {
        self.loop = loop
        self.time = time
        self.signal = signal
        traffic = CounterTraffic(settings.limits, epoch: identity.epoch) { [unowned self] in self.signal($0) }
        receiver = MailboxReceiver(loop: loop, mailbox: reports) { [unowned self] in apply($0) }
        serve(access)
        expire()
    }

    /// Starts using the opened connections.
    private func serve(_ access: DatabaseAccess) {
        guard let loop, let connection = access.takeConnection(),
            let pipeline = DatabasePipeline(
                connection, loop: loop, patience: settings.limits.answering,
                notified: { [unowned self] in look() }, lost: { [unowned self] in fail($0) })
        else { return fail("no free descriptor for the connection") }
        self.pipeline = pipeline
        feed = ChangeFeed(position: access.position)
        lineage = access.progress.lineage
        epochNumber = access.progress.epochNumber
        logPosition = LogPosition(durable: access.progress.position)
        traffic?.begin(pipeline)
        state = .recovering
    }

    // MARK: - Requests

    func commit(_ entries: [CounterEntry], answer: @escaping (Int, CounterOutcome) -> Void) {
        guard let traffic else { return entries.indices.forEach { answer($0, .storeUnavailable) } }
        traffic.add(entries, answer: answer)
    }

    func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void) {
        guard isAvailable, let pipeline else { return answer(.failure(.unavailable)) }
        finding += 1
        pipeline.run(CounterStatements.find, [.key(key)]) { [unowned self] outcome in
            finding -= 1
            guard case .done(let result) = outcome else {
                if case .refused(let fault) = outcome { pipeline.lose("\(fault)") }
                return answer(.failure(.unavailable))
            }
            do {
                answer(.success(try found(result, key)))
            } catch {
                answer(.failure(.unavailable))
                pipeline.lose("\(DatabaseFailure(error))")
            }
            if finding == Self.findLimit - 1 { signal(.hasRoom) }
        }
    }

    private func found(_ result: DatabaseResult, _ key: KeyID) throws -> FoundDevice? {
        guard result.rows > 0 else { return nil }
        let (row, end) = (DatabaseRow(result, 0), SQLColumns.postureEnd)
        let window = try row.window(8, end + 1)
        let (posture, isKeyListed) = try row.posture(boundAt: row.integer(end))
        let device = FoundDevice(
            id: try row.device(0, "device"), identity: try row.deviceIdentity(),
            isRevoked: !result.isNull(0, 7), isBound: try result.boolean(0, end + 3), window: window,
            shown: try row.shown(12), posture: posture, isKeyListed: isKeyListed)
        if device.isBound, !device.isRevoked {
            traffic?.learn(
                device.id,
                KnownCounter(
                    window: window, shown: device.shown, standing: try result.integer(0, end + 2), active: [key]))
        }
        return device
    }

    func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void
    ) {
        guard isAvailable else { return answer(.failure(.unavailable)) }
        tickets += 1
        commands[tickets] = (command, answer)
        databaseThread.order(.perform(command, at: time, ticket: tickets))
    }

    // MARK: - Reports of the database thread

    private func apply(_ report: DatabaseThread.Report) {
        switch report {
        case .opened(let access): opened(access)
        case .notOpened(let reason):
            signal(.cannotReopen(reason))
            pause()
        case .performed(let ticket, let answer): performed(ticket, answer)
        case .expired(let isLeft):
            isExpiring = false
            if isLeft { expire() } else { recovered() }
        case .notExpired(let fault):
            isExpiring = false
            if let fault { return fail(fault) }
            // Nothing is answered before due bindings have ended.
            if !isServing { expire() }
        }
    }

    private func performed(_ ticket: Int, _ done: DatabaseReply) {
        guard let (_, answer) = commands.removeValue(forKey: ticket) else { return }
        if let (device, counter) = done.owed {
            traffic?.owe(counter, of: device)
            signal(.changes([.spent(counter, of: device)]))
        }
        if case .success(.identity(let now)) = done.result { change(to: now) }
        if let fault = done.fault {
            answer(done.result)
            return fail(fault)
        }
        // Memory applies the change like one of another gateway, before the command is answered.
        guard let change = done.change, feed.position < change, isAvailable else { return answer(done.result) }
        feed.wait(for: change) { answer(done.result) }
        look()
    }

    func change(to now: StoreIdentity) {
        guard now != identity else { return }
        identity = now
        traffic?.change(to: now.epoch)
        signal(.changes([.identity(now)]))
    }

    // MARK: - Changes

    /// Looks for changes by any gateway. If there are none, memory was correct at the time of the request.
    func look() {
        guard let pipeline, feed.beginLook() else { return }
        let asked = Instant.now
        pipeline.run(CounterStatements.confirm, []) { [unowned self] outcome in
            guard case .done(let result) = outcome else { return ended(outcome, pipeline) }
            do {
                guard result.rows == 1, let store = RandomID(result.bytes(0, 0)),
                    let epoch = RandomID(result.bytes(0, 1)), store == identity.store
                else { throw DatabaseFault("replaced by another store while in use") }
                change(to: StoreIdentity(store: store, epoch: epoch))
                epochNumber = try result.integer(0, 3)
                logPosition.update(inserted: try result.integer(0, 4), flushed: try result.integer(0, 5))
                if try feed.isBehind(try result.integer(0, 2)) { return readChanges(pipeline) }
            } catch {
                return pipeline.lose("\(DatabaseFailure(error))")
            }
            if isServing { signal(.confirmed(at: asked)) }
            if feed.endLook() { look() }
        }
    }

    private func readChanges(_ pipeline: DatabasePipeline) {
        pipeline.run(CounterStatements.changes, [.integer(feed.position)]) { [unowned self] outcome in
            guard case .done(let result) = outcome else { return ended(outcome, pipeline) }
            do {
                let changed = try feed.changes(result, at: time)
                attest(changed.entries)
                for device in changed.devices { traffic?.forget(device) }
                signal(.changes(changed.changes))
                for done in feed.advance(to: changed.position) { done() }
            } catch {
                return pipeline.lose("\(DatabaseFailure(error))")
            }
            _ = feed.endLook()
            // There may be more changes.
            look()
        }
    }

    private func ended(_ outcome: DatabasePipeline.Outcome, _ pipeline: DatabasePipeline) {
        _ = feed.endLook()
        if case .refused(let fault) = outcome { pipeline.lose("\(fault)") }
    }

    // MARK: - Time

    func tick(at time: Int64) {
        self.time = time
        switch state {
        case .recovering: break
        case .serving:
            look()
            expire()
        case .failed(let until):
            guard let until, until <= .now else { return }
            state = .failed(until: nil)
            open()
        }
    }

    func workOn() {}

    private func expire() {
        guard !isExpiring, isAvailable else { return }
        isExpiring = true
        databaseThread.order(.expire(at: time, progress))
    }

    private var progress: StoreProgress {
        StoreProgress(
            store: identity.store, lineage: lineage, position: logPosition.durable, standing: feed.position,
            epochNumber: epochNumber)
    }

    /// Adds entries to the journal. They precede later marks.
    func attest(_ entries: [WitnessEntry]) {
        if settings.witness != nil { databaseThread.order(.attest(entries)) }
    }

    func finish(_ done: @escaping () -> Void) {
        // The last known progress of a failed connection may be wrong.
        if isServing { databaseThread.order(.mark(progress)) }
        state = .failed(until: nil)
        signal = { _ in }
        pipeline?.lose("the end")
        pipeline = nil
        traffic?.end()
        databaseThread.order(.stop)
        databaseThread.join()
        done()
    }

    // MARK: - Failure

    private func fail(_ reason: String) {
        guard isAvailable else { return }
        let was = isServing
        pause()
        pipeline?.lose(reason)
        pipeline = nil
        traffic?.end()
        databaseThread.order(.abandon)
        // These operations were done, and memory is cleared before it is used again.
        for done in feed.endWaiting() { done() }
        signal(was || !wasServing ? .failed(reason) : .cannotReopen(reason))
        // Waiting requests are then refused.
        signal(.hasRoom)
    }

    /// Schedules the next opening. The pause grows with each failure and is random, so that gateways do not return at
    /// the same time.
    private func pause() {
        let longest = min(8_000, 250 << min(failures, 5))
        failures += 1
        state = .failed(until: .now + .milliseconds(.random(in: Int64(longest / 2)...Int64(longest))))
    }

    private func open() {
        paying = traffic?.owed ?? [:]
        databaseThread.order(.open(owed: paying))
    }

    private func opened(_ access: DatabaseAccess) {
        traffic?.paid(paying)
        paying = [:]
        guard access.identity.store == identity.store else {
            databaseThread.order(.abandon)
            signal(.cannotReopen("\(settings.name): replaced by another store while in use"))
            return pause()
        }
        // Workers that did not know of the failure may have spent more values.
        guard traffic?.owed.isEmpty == true else { return open() }
        serve(access)
        guard isAvailable else { return }
        change(to: access.identity)
        signal(.reopened)
        // The database thread expires after the operations that were just requested.
        expire()
    }

    private func recovered() {
        guard case .recovering = state else { return }
        state = .serving
        failures = 0
        if wasServing { signal(.recovered) } else { signal(.confirmed(at: .now)) }
        wasServing = true
        signal(.hasRoom)
    }
}

extension DeviceRegistry {
    /// Opens the store in a PostgreSQL database, which other gateways may share, and starts its thread. Waits for the database.
    ///
    /// - Parameter observe: called on the store's thread when the store fails and recovers.
    public static func start(
        _ settings: PostgreSQLSettings, limits: RegistryLimits = RegistryLimits(),
        observe: @escaping @Sendable (StoreEvent) -> Void
    ) throws(StoreOpenError) -> DeviceRegistry {
        var settings = settings
        settings.limits.records = limits.devices
        let store = try PostgreSQLStore(settings)
        do {
            return try DeviceRegistry(
                store, journal: settings.witness?.health, isShared: true, limits: limits, observe: observe)
        } catch {
            throw .failed(path: settings.name, detail: "cannot start the store's thread: \(error)")
        }
    }
}
