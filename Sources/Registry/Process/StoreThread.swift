internal import EventLoop
internal import Synchronization
internal import Vocabulary

/// The one thread that touches the store, and how it divides its time: counters first, all that wait in one batch; then
/// lookups, in slices; then what the store does for itself.
///
/// While one batch is being made durable, requests gather and are the next: batches form by themselves, and a lone request
/// does not wait.
final class StoreThread {
    private let store: any StoreBackend
    private let loop: Loop
    private let shared: RegistryShared
    private let observe: (StoreEvent) -> Void

    /// The store as it was opened.
    private let opened: StoreIdentity
    private var clients: [ClientNumber: Mailbox<[RegistryEvent]>] = [:]
    /// What is to be delivered, in order, a message for each client. They are few: one is looked for among all.
    private var answers: [(client: ClientNumber, events: [RegistryEvent])] = []
    /// How many answers may come together.
    private var answerRoom = 0
    private var batch: [SpendRequest] = []
    private var lookups: [(key: KeyID, reference: Reference)] = []
    private var nextLookup = 0
    /// Questions that the store has not answered yet.
    private var unanswered = 0
    /// Whether answers are to be delivered when the loop's turn ends.
    private var isDeliveryDue = false
    /// Whether `turn` delivers them.
    private var isInTurn = false
    private var isStopping = false
    private var isFinishing = false
    private var lastReason: String?
    /// The present trouble with its first reason, as other threads see it; nil if there is none.
    private var trouble: StoreOutage?

    private static let lookupSlice = TimeSpan.milliseconds(2)
    /// How often the store is confirmed, found idle, or opened again after a failure.
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

    /// Serves until it is stopped. Blocks the thread.
    func run() {
        let receiver = MailboxReceiver(
            loop: loop, mailbox: shared.requests, receive: { [unowned self] in receive($0) },
            received: { [unowned self] in turn() })
        let timer = LoopTimer(loop: loop, interval: Self.interval, repeats: true) { [unowned self] in tick() }
        store.start(on: loop, at: WallClock.seconds) { [unowned self] in apply($0) }
        withExtendedLifetime((receiver, timer)) { loop.run() }
        shared.health.end()
    }

    private func receive(_ request: StoreRequest) {
        switch request {
        case .attach(let client, let mailbox):
            clients[client] = mailbox
            // A client that comes with a reload knows only the identity that the registry was opened with.
            if store.identity != opened { answer(client, .identity(store.identity)) }
        case .detach(let client): clients[client] = nil
        case .look(let key, let reference): lookups.append((key, reference))
        case .spend(let requests): batch += requests
        case .perform(let command, let reference): perform(command, reference)
        case .turn: break
        case .stop: isStopping = true
        }
    }

    /// Everything that waited has been received.
    private func turn() {
        isInTurn = true
        defer { isInTurn = false }
        commit()
        // No answer waits for what is done for others, or for later.
        deliver()
        look()
        deliver()
        if isStopping { return finish() }
        store.workOn()
        deliver()
    }

    private func tick() {
        guard !isFinishing else { return }
        store.tick(at: WallClock.seconds)
        deliver()
    }

    /// Once nobody waits for anything any more.
    private func finish() {
        guard !isFinishing, batch.isEmpty, nextLookup == lookups.count, unanswered == 0 else { return }
        isFinishing = true
        store.finish { [unowned self] in loop.stop() }
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
            // Those whose record had to go are accepted here; it may have come back, and then it decides.
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

    /// - Parameter isPinned: whether the shared record holds the value as outstanding.
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
        case .pending:
            let unspent = CounterEntry(
                device: entry.device, binding: entry.binding, counter: entry.counter, epoch: entry.epoch,
                shown: entry.shown, mode: .unspent)
            return (unspent, nil, true)
        case .replayed: return (entry, .replayed, false)
        case .late(let highest): return (entry, .late(highest: highest), false)
        case .deviceRevoked: return (entry, .deviceRevoked, false)
        case .extensionWithheld: return (entry, .extensionWithheld, false)
        case .storeUnavailable: return (entry, .storeUnavailable, false)
        // No record: the store's is the only one, and only this thread could make another.
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
            goOn()
        }
    }

    private func find(_ key: KeyID, for reference: Reference) {
        // An earlier one of the same key may have brought it in.
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

    // MARK: - What the store says by itself

    private func apply(_ signal: StoreSignal) {
        switch signal {
        case .confirmed(let time):
            shared.health.confirm(at: time)
            ended()
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
            tell("cannot be reopened: \(reason)")
            if reason != lastReason { observe(.cannotReopen(reason)) }
            lastReason = reason
        case .reopened: askAgain()
        case .recovered:
            shared.health.confirm(at: .now)
            ended()
            observe(.recovered)
        case .isWorkLeft, .hasRoom: goOn()
        }
    }

    private func begin(_ reason: String) {
        guard trouble == nil else { return }
        let trouble = StoreOutage(reason: reason, since: WallClock.seconds)
        self.trouble = trouble
        shared.trouble.withLock { $0 = trouble }
    }

    /// Adds the reason why the trouble continues to its first reason: the first one says what to repair, this one what
    /// still prevents it.
    private func tell(_ more: String) {
        guard let trouble else { return }
        shared.trouble.withLock { $0 = StoreOutage(reason: "\(trouble.reason); \(more)", since: trouble.since) }
    }

    private func ended() {
        guard trouble != nil else { return }
        trouble = nil
        shared.trouble.withLock { $0 = nil }
    }

    private func take(over change: StoreChange) {
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

    /// What memory knew before the failure may differ from the store now.
    private func askAgain() {
        for device in shared.records.forget() {
            unanswered += 1
            store.perform(.show(.id(device)), at: WallClock.seconds) { [unowned self] result in
                unanswered -= 1
                if case .success(.device(let details)) = result { shared.records.update(DeviceUpdate(details)) }
            }
        }
    }

    private func goOn() {
        // A full mailbox wakes the loop by itself.
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
            // Most often there is one worker, or one whose turn it was.
            if place == 0 { answers[place].events.reserveCapacity(answerRoom) }
        }
        answers[place].events.append(event)
        if !isInTurn { deliverLater() }
    }

    private func tellAll(_ event: RegistryEvent) {
        for client in clients.keys { answer(client, event) }
    }

    /// For answers that come between turns of this thread.
    private func deliverLater() {
        guard !isDeliveryDue else { return }
        isDeliveryDue = true
        loop.whenTurnEnds { [weak self] in
            guard let self else { return }
            isDeliveryDue = false
            deliver()
            if isStopping { finish() }
        }
    }

    private func deliver() {
        answerRoom = 0
        guard !answers.isEmpty else { return }
        for (client, events) in answers { clients[client]?.post(events) }
        answers.removeAll(keepingCapacity: true)
    }
}

extension DeviceLookup {
    fileprivate var isPending: Bool {
        if case .pending = self { true } else { false }
    }
}
