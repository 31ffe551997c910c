internal import EventLoop
internal import Synchronization
internal import Vocabulary

/// The one thread that touches the store, and how it divides its time: counters first, all that wait in one transaction;
/// then lookups, in slices; then the journal and the log.
///
/// While one transaction is being synced, requests gather in the mailbox and are the next: batches form by themselves, and
/// a lone request does not wait.
final class StoreThread {
    private let store: RegistryStore
    private let loop: Loop
    private let shared: RegistryShared
    private let observe: (StoreEvent) -> Void

    /// The store as it was opened.
    private let opened: StoreIdentity
    private var clients: [ClientNumber: Mailbox<[RegistryEvent]>] = [:]
    private var answers: [ClientNumber: [RegistryEvent]] = [:]
    private var batch: [SpendRequest] = []
    private var lookups: [(key: KeyID, reference: Reference)] = []
    private var nextLookup = 0
    private var isBusy = false
    private var isTidying = false
    /// Whether more bindings may be due to end than one slice ends.
    private var isEnding = false
    private var isRemoving = false
    private var isStopping = false
    private var lastReason: String?

    /// Journal rows, at about 24 bytes in memory and in the file, beyond which slices are folded under load too.
    private static let journalBound = 32_768
    /// Pages of 4 KiB in the log, beyond which it is moved into the file under load too.
    private static let logBound = 8_192
    private static let lookupSlice = TimeSpan.milliseconds(2)
    /// How often the store is confirmed, found idle, or opened again after a failure.
    private static let interval = TimeSpan.milliseconds(500)
    /// Bindings ended in one transaction.
    private static let endingLimit = 256

    init(store: RegistryStore, loop: Loop, shared: RegistryShared, observe: @escaping (StoreEvent) -> Void) {
        self.store = store
        opened = store.identity
        self.loop = loop
        self.shared = shared
        self.observe = observe
    }

    /// Serves until told to stop. Blocks the thread.
    func run() {
        let receiver = MailboxReceiver(
            loop: loop, mailbox: shared.requests, receive: { [unowned self] in receive($0) },
            received: { [unowned self] in turn() })
        let timer = LoopTimer(loop: loop, interval: Self.interval, repeats: true) { [unowned self] in tick() }
        // What was due while nothing ran has ended before anything is answered.
        expire()
        withExtendedLifetime((receiver, timer)) { loop.run() }
        shared.health.fail()
    }

    private func receive(_ request: StoreRequest) {
        switch request {
        case .attach(let client, let mailbox):
            clients[client] = mailbox
            // Whoever comes with a reload knows only the identity that the registry was opened with.
            if store.identity != opened { answers[client, default: []].append(.identity(store.identity)) }
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
        commit()
        // No answer waits for what is done for others, or for later.
        deliver()
        look()
        deliver()
        if isStopping, nextLookup == lookups.count { return finish() }
        if isEnding || isRemoving { expire() }
        deliver()
        tidy()
    }

    // MARK: - Counters

    private func commit() {
        guard !batch.isEmpty else { return }
        isBusy = true
        isTidying = false
        var requests: [SpendRequest] = []
        swap(&requests, &batch)
        // Those whose record had to go are accepted here; it may have come back, and then it decides.
        var undecided = requests.map { settledByRecord($0) }
        let entries = zip(requests, undecided).compactMap { $1.outcome == nil ? $1.entry : nil }
        let wasAvailable = store.isAvailable
        let outcomes = entries.isEmpty ? [] : store.commit(entries)
        if store.isAvailable {
            shared.health.confirm()
            let committed = outcomes.count { $0 == .committed }
            if committed > 0 { shared.counts.countCommit(of: committed) }
        } else if wasAvailable {
            failed()
        }
        var next = outcomes.startIndex
        for index in undecided.indices where undecided[index].outcome == nil {
            undecided[index].outcome = outcomes[next]
            next += 1
        }
        for (request, verdict) in zip(requests, undecided) {
            if verdict.isPinned { shared.records.settle(request.entry.device) }
            // Every one of them has an outcome by now.
            answer(request.reference, .counter(token: request.reference.token, verdict.outcome ?? .storeUnavailable))
        }
        shared.counts.waiting.subtract(requests.count, ordering: .relaxed)
    }

    private struct Undecided {
        var entry: CounterEntry
        var outcome: CounterOutcome?
        /// Whether the shared record holds this value as outstanding.
        var isPinned: Bool
    }

    private func settledByRecord(_ request: SpendRequest) -> Undecided {
        let entry = request.entry
        if request.isAccepted { return Undecided(entry: entry, outcome: nil, isPinned: true) }
        switch shared.records.accept(
            entry.counter, of: entry.device, showing: entry.shown, mode: entry.mode, hint: -1)
        {
        case .pending:
            let unspent = CounterEntry(
                device: entry.device, binding: entry.binding, counter: entry.counter, epoch: entry.epoch,
                shown: entry.shown, mode: .unspent)
            return Undecided(entry: unspent, outcome: nil, isPinned: true)
        case .replayed: return Undecided(entry: entry, outcome: .replayed, isPinned: false)
        case .late: return Undecided(entry: entry, outcome: .late, isPinned: false)
        case .deviceRevoked: return Undecided(entry: entry, outcome: .deviceRevoked, isPinned: false)
        case .extensionWithheld: return Undecided(entry: entry, outcome: .extensionWithheld, isPinned: false)
        case .storeUnavailable: return Undecided(entry: entry, outcome: .storeUnavailable, isPinned: false)
        // No record: the writer's is the only one, and only this thread could make another.
        case nil: return Undecided(entry: entry, outcome: nil, isPinned: false)
        }
    }

    // MARK: - Lookups

    private func look() {
        let deadline = Instant.now + Self.lookupSlice
        while nextLookup < lookups.count, Instant.now < deadline {
            let (key, reference) = lookups[nextLookup]
            nextLookup += 1
            answer(reference, .device(token: reference.token, find(key)))
            shared.counts.looking.subtract(1, ordering: .relaxed)
        }
        if nextLookup == lookups.count {
            lookups.removeAll(keepingCapacity: true)
            nextLookup = 0
        } else {
            goOn()
        }
    }

    private func find(_ key: KeyID) -> DeviceLookup {
        // An earlier one of the same key may have brought it in.
        if case let known = shared.records.look(up: key, now: .now), !known.isPending { return known }
        let wasAvailable = store.isAvailable
        do throws(StoreError) {
            shared.counts.loads.add(1, ordering: .relaxed)
            guard let found = try store.find(key) else {
                shared.records.insertUnknown(key, now: .now)
                return .unknown
            }
            shared.records.insert(found, key: key)
            let answer = shared.records.look(up: key, now: .now)
            return answer.isPending ? .storeUnavailable : answer
        } catch {
            if wasAvailable, !store.isAvailable { failed() }
            return .storeUnavailable
        }
    }

    // MARK: - Operations

    private func perform(_ command: RegistryCommand, _ reference: Reference) {
        let wasAvailable = store.isAvailable
        let result = store.perform(command)
        if wasAvailable, !store.isAvailable { failed() }
        if case .success(let reply) = result { publish(command, reply) }
        answer(reference, .reply(token: reference.token, result))
        shared.counts.commanding.subtract(1, ordering: .relaxed)
    }

    /// Records first, so that a worker told to close connections finds the same in its next lookup.
    private func publish(_ command: RegistryCommand, _ reply: RegistryReply) {
        switch (command, reply) {
        case (.register, .device(let details)), (.bind, .device(let details)), (.restore, .device(let details)):
            shared.records.update(details)
        case (.revoke, .device(let details)):
            shared.records.update(details)
            tellAll(.barred(details.bindings.map(\.key)))
        case (.endBinding(let key), .device(let details)):
            shared.records.update(details)
            shared.records.end([key])
            tellAll(.barred([key]))
        case (.approve, .device(let details)):
            shared.records.update(details)
        case (.bindKey(let request), .keyBinding(.bound(let details, _))):
            shared.records.spend(request.counter, of: details.device.id)
            shared.records.update(details)
        case (.settleReceipt, .settledReceipt(.settled(let details))):
            shared.records.update(details)
        case (.revokeSubject, .revoked(let devices)):
            for details in devices { shared.records.update(details) }
            let keys = devices.flatMap { $0.bindings.map(\.key) }
            if !keys.isEmpty { tellAll(.barred(keys)) }
        case (.renewEpoch, .identity(let identity)): tellAll(.identity(identity))
        default: break
        }
    }

    // MARK: - Failure

    private func failed() {
        shared.health.fail()
        shared.counts.storeErrors.add(1, ordering: .relaxed)
        lastReason = nil
        observe(.failed(store.lastFault ?? "unknown"))
    }

    private func reopen() {
        do throws(StoreOpenError) {
            try store.reopen()
        } catch {
            return cannotReopen(error.description)
        }
        // What was told before the failure may not be what the file says now.
        for device in shared.records.forget() {
            let now = store.perform(.show(.id(device)))
            if case .success(.device(let details)) = now { shared.records.update(details) }
        }
        // Again before anything is answered.
        do throws(StoreError) {
            try expireSlice()
        } catch {
            return cannotReopen(store.lastFault ?? "unknown")
        }
        shared.health.confirm()
        observe(.recovered)
    }

    private func cannotReopen(_ reason: String) {
        if reason != lastReason { observe(.cannotReopen(reason)) }
        lastReason = reason
    }

    // MARK: - Time between requests

    private func tick() {
        if store.isAvailable {
            do throws(StoreError) {
                try store.confirm()
                shared.health.confirm()
            } catch {
                failed()
            }
        } else {
            reopen()
        }
        expire()
        deliver()
        if !isBusy { isTidying = true }
        isBusy = false
        tidy()
    }

    private func expire() {
        guard store.isAvailable else { return }
        do throws(StoreError) { try expireSlice() } catch { failed() }
    }

    /// One slice of what ends with time: bindings whose overlap is over; nonces, tokens and certificates that need not be remembered.
    private func expireSlice() throws(StoreError) {
        let ended = try store.endDueBindings(at: WallClock.seconds, limit: Self.endingLimit)
        shared.records.end(ended)
        if !ended.isEmpty { tellAll(.barred(ended)) }
        isEnding = ended.count == Self.endingLimit
        let isLeft = try store.removeExpired(at: WallClock.seconds)
        isRemoving = try store.removeEndedCertificates(at: WallClock.seconds) || isLeft
        if isEnding || isRemoving { goOn() }
    }

    /// One slice of folding, or a checkpoint: when idle, or when the journal or the log is long.
    private func tidy() {
        guard store.isAvailable else { return }
        do throws(StoreError) {
            if isTidying || store.journalLength > Self.journalBound {
                if try store.fold() { return goOn() }
            }
            if store.logPages > (isTidying ? 0 : Self.logBound) { try store.checkpoint() }
            isTidying = false
        } catch {
            failed()
        }
    }

    /// Leaves everything in the file itself, as far as the store still works.
    private func finish() {
        do throws(StoreError) {
            while try store.fold() {}
            try store.checkpoint()
        } catch {
            // The journal and the log hold it all, and are read when the file is opened again.
        }
        loop.stop()
    }

    private func goOn() {
        // A full mailbox wakes the loop by itself.
        shared.requests.post(.turn)
    }

    // MARK: - Answers

    private func answer(_ reference: Reference, _ event: RegistryEvent) {
        answers[reference.client, default: []].append(event)
    }

    private func tellAll(_ event: RegistryEvent) {
        for client in clients.keys { answers[client, default: []].append(event) }
    }

    /// One message for each worker, however many answers.
    private func deliver() {
        for (client, events) in answers { clients[client]?.post(events) }
        answers.removeAll(keepingCapacity: true)
    }
}

extension DeviceLookup {
    fileprivate var isPending: Bool {
        if case .pending = self { true } else { false }
    }
}
