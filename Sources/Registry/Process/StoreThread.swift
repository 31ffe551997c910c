internal import EventLoop
internal import Synchronization
internal import Vocabulary

/// The only thread that uses the store. It commits all waiting counters in one batch, then answers look-ups in slices,
/// then lets the store do background work.
///
/// Requests gather while a batch is made durable, and form the next one. A single request therefore does not wait for
/// others.
final class StoreThread {
    private var store: any StoreBackend
    private let loop: Loop
    private let shared: RegistryShared
    private let observe: (StoreEvent) -> Void

    /// The identity of the store when it was opened.
    private let opened: StoreIdentity
    private var clients: [ClientNumber: Mailbox<[RegistryEvent]>] = [:]
    /// Events to be delivered, with one message for each client. There are few clients, so they are searched linearly.
    private var answers: [(client: ClientNumber, events: [RegistryEvent])] = []
    /// The expected number of answers that arrive together.
    private var answerRoom = 0
    private var batch: [SpendRequest] = []
    private var lookups: [(key: KeyID, reference: Reference)] = []
    private var nextLookup = 0
    /// The number of requests that the store has not answered yet.
    private var unanswered = 0
    /// Whether delivery is scheduled for the end of the loop's turn.
    private var isDeliveryDue = false
    /// Whether `turn` is running, which delivers answers itself.
    private var isInTurn = false
    private var end = End.none
    /// Whether another process has the store.
    private var isReleased = false
    /// The processes that have released a store to this one.
    private var answering: [RegistryAnswers] = []
    private var lastReason: String?
    /// The current outage with its first reason, as published to other threads. Nil if there is none.
    private var trouble: StoreOutage?

    /// The end of the store.
    private enum End {
        case none
        /// The store closes when no request is left. The thread then ends, or continues with what another process
        /// answers through a socket.
        case due(asking: Int32?)
        case finishing
    }

    /// The number of ticks since the start.
    private var ticks = 0

    /// The number of ticks between two writes of devices that were seen: 5 s.
    private static let seenPause = 10
    private static let lookupSlice = TimeSpan.milliseconds(2)
    /// The interval of confirmation, of background work when idle, and of reopening after a failure.
    private static let interval = TimeSpan.milliseconds(500)

    init(
        store: any StoreBackend, loop: Loop, shared: RegistryShared, observe: @escaping (StoreEvent) -> Void
    ) {
        self.store = store
        opened = store.identity
        self.loop = loop
        self.shared = shared
        self.observe = observe
    }

    /// Runs the loop until the thread is stopped. Blocks.
    func run() {
        let receiver = MailboxReceiver(
            loop: loop, mailbox: shared.requests, receive: { [unowned self] in receive($0) },
            received: { [unowned self] in turn() })
        let timer = LoopTimer(loop: loop, interval: Self.interval, repeats: true) { [unowned self] in tick() }
        shared.records.begin(day: WallClock.seconds / 86_400)
        store.start(on: loop, at: WallClock.seconds) { [unowned self] in apply($0) }
        withExtendedLifetime((receiver, timer)) { loop.run() }
        shared.health.end()
    }

    private func receive(_ request: StoreRequest) {
        switch request {
        case .attach(let client, let mailbox):
            clients[client] = mailbox
            // A client that connects after a reload knows only the first identity.
            if store.identity != opened { answer(client, .identity(store.identity)) }
        case .detach(let client): clients[client] = nil
        case .look(let key, let reference): lookups.append((key, reference))
        case .spend(let requests): batch += requests
        case .perform(let command, let reference): perform(command, reference)
        case .turn: break
        case .answer(let descriptor):
            answering.append(
                RegistryAnswers(descriptor, loop: loop) { [unowned self] key, answer in store.find(key, answer: answer)
                })
        case .release(let descriptor):
            writeSeen()
            end = .due(asking: descriptor)
        case .stop:
            writeSeen()
            end = .due(asking: nil)
        }
    }

    /// Processes all received requests.
    private func turn() {
        isInTurn = true
        defer { isInTurn = false }
        commit()
        // Answers are delivered before other work starts.
        deliver()
        look()
        deliver()
        if finishIfDue() { return }
        store.workOn()
        deliver()
        _ = finishIfDue()
    }

    private func tick() {
        if case .finishing = end { return }
        let time = WallClock.seconds
        shared.records.begin(day: time / 86_400)
        store.tick(at: time)
        ticks += 1
        if ticks % Self.seenPause == 0 { writeSeen() }
        deliver()
    }

    /// Writes the devices that were seen since the last write, in one transaction.
    private func writeSeen() {
        guard !isReleased, store.isAvailable else { return }
        let devices = shared.records.takeSeen(SeenDevices.limit)
        guard !devices.isEmpty else { return }
        let time = WallClock.seconds
        unanswered += 1
        store.perform(.noteSeen(SeenDevices(devices, day: time / 86_400)), at: time) { [unowned self] result in
            unanswered -= 1
            if case .failure = result { shared.records.giveBackSeen(devices) }
            // The thread may be waiting for this alone.
            if case .due = end { scheduleTurn() }
        }
    }

    /// Closes the store when that is due and no request is left.
    ///
    /// - Returns: Whether it closes.
    private func finishIfDue() -> Bool {
        guard case .due(let descriptor) = end, batch.isEmpty, nextLookup == lookups.count, unanswered == 0 else {
            return false
        }
        end = .finishing
        store.finish { [unowned self] in
            guard let descriptor else { return loop.stop() }
            loop.whenTurnEnds { [self] in ask(descriptor) }
        }
        return true
    }

    /// Continues with what another process answers.
    private func ask(_ descriptor: Int32) {
        // They ask the process that opens the store.
        answering = []
        store = RemoteStore(store.identity, descriptor: descriptor)
        shared.health.fail()
        store.start(on: loop, at: WallClock.seconds) { [unowned self] in apply($0) }
        end = .none
        isReleased = true
        shared.isReleased.store(true, ordering: .releasing)
        scheduleTurn()
    }

    // MARK: - Counters

    private func commit() {
        guard !batch.isEmpty, store.takesBatch else { return }
        var requests: [SpendRequest] = []
        swap(&requests, &batch)
        var entries: [CounterEntry] = []
        var asked: [(device: DeviceID, reference: Reference, isPinned: Bool)] = []
        entries.reserveCapacity(requests.count)
        asked.reserveCapacity(requests.count)
        answerRoom = requests.count
        for request in requests {
            // Values whose record was evicted are accepted here. If the record is back, it decides.
            let (entry, outcome, isPinned) = decidedByRecord(request)
            if let outcome {
                complete(entry.device, request.reference, isPinned, outcome)
            } else {
                entries.append(entry)
                asked.append((entry.device, request.reference, isPinned))
            }
        }
        guard !entries.isEmpty else { return }
        unanswered += entries.count
        store.commit(entries) { [unowned self, asked] index, outcome in
            unanswered -= 1
            let (device, reference, isPinned) = asked[index]
            complete(device, reference, isPinned, outcome)
        }
    }

    /// Completes a counter.
    ///
    /// - Parameter isPinned: Whether the shared record counts the value as outstanding.
    private func complete(_ device: DeviceID, _ reference: Reference, _ isPinned: Bool, _ outcome: CounterOutcome) {
        if isPinned { shared.records.complete(device) }
        answer(reference.client, .counter(token: reference.token, outcome))
        shared.counts.waiting.subtract(1, ordering: .relaxed)
    }

    private func decidedByRecord(
        _ request: SpendRequest
    ) -> (entry: CounterEntry, outcome: CounterOutcome?, isPinned: Bool) {
        let entry = request.entry
        if request.isAccepted { return (entry, nil, true) }
        switch shared.records.accept(
            entry.counter, of: entry.device, showing: entry.shown, mode: entry.mode, hint: -1)
        {
        case .committed:
            let unspent = CounterEntry(
                device: entry.device, binding: entry.binding, counter: entry.counter, epoch: entry.epoch,
                shown: entry.shown, mode: .unspent)
            return (unspent, nil, true)
        case let refusal?: return (entry, refusal, false)
        // Without a record the store decides, because only this thread could insert one.
        case nil: return (entry, nil, false)
        }
    }

    // MARK: - Lookups

    private func look() {
        let deadline = Instant.now + Self.lookupSlice
        while nextLookup < lookups.count, store.takesLookup, Instant.now < deadline {
            let (key, reference) = lookups[nextLookup]
            nextLookup += 1
            find(key, for: reference)
        }
        if nextLookup == lookups.count {
            lookups.removeAll(keepingCapacity: true)
            nextLookup = 0
        } else if store.takesLookup {
            scheduleTurn()
        }
    }

    private func find(_ key: KeyID, for reference: Reference) {
        // An earlier look-up of the same key may have inserted it.
        if case let known = shared.records.look(up: key, now: .now), !known.isPending {
            return found(known, for: reference)
        }
        shared.counts.loads.add(1, ordering: .relaxed)
        unanswered += 1
        store.find(key) { [unowned self] result in
            unanswered -= 1
            switch result {
            case .failure: found(.storeUnavailable, for: reference)
            case .success(nil):
                shared.records.insertUnknown(key, now: .now)
                found(.unknown, for: reference)
            case .success(let device?):
                shared.records.insert(device, key: key)
                let answer = shared.records.look(up: key, now: .now)
                found(answer.isPending ? .storeUnavailable : answer, for: reference)
            }
        }
    }

    private func found(_ lookup: DeviceLookup, for reference: Reference) {
        answer(reference.client, .device(token: reference.token, lookup))
        shared.counts.looking.subtract(1, ordering: .relaxed)
    }

    // MARK: - Operations

    private func perform(_ command: RegistryCommand, _ reference: Reference) {
        unanswered += 1
        store.perform(command, at: WallClock.seconds) { [unowned self] result in
            unanswered -= 1
            answer(reference.client, .reply(token: reference.token, result))
            shared.counts.commanding.subtract(1, ordering: .relaxed)
        }
    }

    // MARK: - Events of the store

    private func apply(_ signal: StoreSignal) {
        switch signal {
        case .confirmed(let time):
            shared.health.confirm(at: time, takesCounters: !isReleased)
            ended()
            for process in answering { process.confirm() }
        case .committed(let count): shared.counts.countCommit(of: count)
        case .changes(let changes): for change in changes { take(over: change) }
        case .failed(let reason):
            shared.health.fail()
            shared.counts.storeErrors.add(1, ordering: .relaxed)
            lastReason = nil
            begin(reason)
            observe(.failed(reason))
        case .cannotReopen(let reason):
            begin("not opened yet")
            addReason("cannot be reopened: \(reason)")
            if reason != lastReason { observe(.cannotReopen(reason)) }
            lastReason = reason
        case .reopened: reloadRecords()
        case .recovered:
            shared.health.confirm(at: .now)
            ended()
            observe(.recovered)
        case .isWorkLeft, .hasRoom: scheduleTurn()
        }
    }

    private func begin(_ reason: String) {
        guard trouble == nil else { return }
        let trouble = StoreOutage(reason: reason, since: WallClock.seconds)
        self.trouble = trouble
        shared.trouble.withLock { $0 = trouble }
    }

    /// Appends the reason why the outage continues. The first reason says what to repair, and this one what still
    /// prevents it.
    private func addReason(_ more: String) {
        guard let trouble else { return }
        shared.trouble.withLock { $0 = StoreOutage(reason: "\(trouble.reason); \(more)", since: trouble.since) }
    }

    private func ended() {
        guard trouble != nil else { return }
        trouble = nil
        shared.trouble.withLock { $0 = nil }
    }

    private func take(over change: StoreChange) {
        for process in answering { process.tell(change) }
        switch change {
        case .device(let now): shared.records.update(now)
        case .barred(let keys): if !keys.isEmpty { tellAll(.barred(keys)) }
        case .ended(let keys):
            shared.records.end(keys)
            if !keys.isEmpty { tellAll(.barred(keys)) }
        case .spent(let counter, let device): shared.records.spend(counter, of: device)
        case .window(let window, let device): shared.records.merge(window, of: device)
        case .identity(let identity):
            shared.epochChange.store(WallClock.seconds, ordering: .relaxed)
            shared.epoch.withLock { $0 = identity.epoch }
            tellAll(.identity(identity))
        }
    }

    /// Reads all devices in memory again, because the store may have changed before it was reopened.
    private func reloadRecords() {
        for device in shared.records.forget() {
            unanswered += 1
            store.perform(.show(.id(device)), at: WallClock.seconds) { [unowned self] result in
                unanswered -= 1
                if case .success(.device(let details)) = result { shared.records.update(DeviceUpdate(details)) }
            }
        }
    }

    private func scheduleTurn() {
        // A full mailbox wakes the loop itself.
        shared.requests.post(.turn)
    }

    // MARK: - Answers

    private func answer(_ client: ClientNumber, _ event: RegistryEvent) {
        let place: Int
        if let known = answers.lastIndex(where: { $0.client == client }) {
            place = known
        } else {
            place = answers.count
            answers.append((client, []))
            // Usually there is only one client.
            if place == 0 { answers[place].events.reserveCapacity(answerRoom) }
        }
        answers[place].events.append(event)
        if !isInTurn { deliverLater() }
    }

    private func tellAll(_ event: RegistryEvent) {
        for client in clients.keys { answer(client, event) }
    }

    /// Schedules delivery of answers that arrive outside of `turn`.
    private func deliverLater() {
        guard !isDeliveryDue else { return }
        isDeliveryDue = true
        loop.whenTurnEnds { [weak self] in
            guard let self else { return }
            isDeliveryDue = false
            deliver()
            _ = finishIfDue()
        }
    }

    private func deliver() {
        answerRoom = 0
        guard !answers.isEmpty else { return }
        for (client, events) in answers { clients[client]?.post(events) }
        answers.removeAll(keepingCapacity: true)
    }
}
