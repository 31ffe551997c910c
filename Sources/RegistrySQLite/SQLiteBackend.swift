internal import EventLoop
public import Registry
public import RevocationJournal
internal import Vocabulary

/// The SQLite store for the store's thread. It does background work in slices between requests.
///
/// It answers before the call returns, except that what phones do to enrol waits for the next batch of counters, with
/// which it shares a transaction, or for the end of the turn.
final class SQLiteBackend: StoreBackend {
    private let store: RegistryStore
    /// The operations that wait, the oldest first.
    private var waiting: [Operation] = []
    private var signal: (StoreSignal) -> Void = { _ in }
    /// The time of the last tick.
    private var time: Int64 = 0
    /// Whether a counter was committed since the last tick.
    private var isBusy = false
    private var isTidying = false
    /// Whether more bindings may be due than one slice ends, and more rows than one slice removes.
    private var isEnding = false
    private var isRemoving = false

    /// The number of journal rows above which slices are folded under load too. A row takes about 24 bytes in memory
    /// and in the file.
    private static let journalBound = 32_768
    /// The number of pages in the log above which it is moved into the file under load too. A page has 4 KiB.
    private static let logBound = 8_192
    /// The maximum number of bindings that end in one transaction.
    private static let endingLimit = 256
    /// The maximum number of expired rows of a kind that are removed in one transaction.
    private static let removalLimit = 500

    private struct Operation {
        let command: RegistryCommand
        let time: Int64
        let answer: (Result<RegistryReply, StoreError>) -> Void
    }

    init(_ store: RegistryStore) {
        self.store = store
    }

    var identity: StoreIdentity { store.identity }
    var isAvailable: Bool { store.isAvailable }
    var takesBatch: Bool { true }
    var takesLookup: Bool { true }

    func start(on loop: Loop, at time: Int64, signal: @escaping (StoreSignal) -> Void) {
        self.signal = signal
        self.time = time
        expire()
    }

    // MARK: - Requests

    func commit(_ entries: [CounterEntry], answer: @escaping (Int, CounterOutcome) -> Void) {
        isBusy = true
        isTidying = false
        let operation = waiting.first
        let rule = operation.flatMap { $0.command.rule(at: $0.time) }
        var result: Result<RegistryReply, StoreError>?
        let outcomes = watchingFailure {
            guard let operation, let rule, !rule.isOftenIdle else { return store.commit(entries) }
            let both = store.commit(entries, performing: operation.command, rule, at: operation.time)
            result = both.result
            return both.outcomes
        }
        if store.isAvailable {
            signal(.confirmed(at: .now))
            let committed = outcomes.count { $0 == .committed }
            if committed > 0 { signal(.committed(committed)) }
        }
        for (index, outcome) in outcomes.enumerated() { answer(index, outcome) }
        if let result { finish(waiting.removeFirst(), result) }
    }

    func find(_ key: KeyID, answer: @escaping (Result<FoundDevice?, StoreError>) -> Void) {
        answer(
            watchingFailure {
                do throws(StoreError) { return .success(try store.find(key)) } catch { return .failure(error) }
            })
    }

    func perform(
        _ command: RegistryCommand, at time: Int64, answer: @escaping (Result<RegistryReply, StoreError>) -> Void
    ) {
        let operation = Operation(command: command, time: time, answer: answer)
        guard !command.mayWait else {
            waiting.append(operation)
            return signal(.isWorkLeft)
        }
        // No operation overtakes one that changes something.
        if command.rule(at: time) != nil { while !waiting.isEmpty { perform(waiting.removeFirst()) } }
        perform(operation)
    }

    private func perform(_ operation: Operation) {
        finish(operation, watchingFailure { store.perform(operation.command, at: operation.time) })
    }

    private func finish(_ operation: Operation, _ result: Result<RegistryReply, StoreError>) {
        if case .success(let reply) = result { signal(.changes(StoreChange.all(of: operation.command, reply))) }
        operation.answer(result)
    }

    private func watchingFailure<Answer>(_ ask: () -> Answer) -> Answer {
        let wasAvailable = store.isAvailable
        let answer = ask()
        if wasAvailable, !store.isAvailable { failed() }
        return answer
    }

    private func failed() { signal(.failed(store.lastFault ?? "unknown")) }

    // MARK: - Background work

    func tick(at time: Int64) {
        self.time = time
        if store.isAvailable {
            do throws(StoreError) {
                try store.confirm()
                try store.tickWitness()
                signal(.confirmed(at: .now))
            } catch {
                failed()
            }
        } else {
            reopen()
        }
        expire()
        if !isBusy { isTidying = true }
        isBusy = false
        tidy()
    }

    func workOn() {
        // One for each turn, so that counters never wait for more than one.
        if !waiting.isEmpty {
            perform(waiting.removeFirst())
            if !waiting.isEmpty { return signal(.isWorkLeft) }
        }
        if isEnding || isRemoving { expire() }
        tidy()
    }

    private func reopen() {
        let before = store.identity
        do throws(StoreOpenError) {
            try store.reopen()
        } catch {
            // The file existed before, so the advice differs from that of a first start.
            guard case .missing(let path) = error else { return signal(.cannotReopen(error.description)) }
            return signal(
                .cannotReopen("\(path): missing: restore it with its -wal, or stop the gateway and restore a backup"))
        }
        // The file may have gone back in the meantime.
        if store.identity != before { signal(.changes([.identity(store.identity)])) }
        signal(.reopened)
        // Due bindings must end before anything is answered.
        do throws(StoreError) {
            try expireSlice(at: time)
        } catch {
            return signal(.cannotReopen(store.lastFault ?? "unknown"))
        }
        signal(.recovered)
    }

    private func expire() {
        guard store.isAvailable else { return }
        do throws(StoreError) { try expireSlice(at: time) } catch { failed() }
    }

    /// Expires a slice: bindings after their overlap, and the rows of expired nonces, tokens and certificates.
    private func expireSlice(at time: Int64) throws(StoreError) {
        let bindings = try store.decide(UpkeepRules.endDueBindings(at: time, limit: Self.endingLimit))
        if !bindings.ended.isEmpty { signal(.changes([.ended(bindings.ended)])) }
        isEnding = bindings.isMoreLeft
        let nonces = try store.decide(UpkeepRules.removeUsed(.nonce, at: time, limit: Self.removalLimit))
        let tokens = try store.decide(UpkeepRules.removeUsed(.token, at: time, limit: Self.removalLimit))
        let certificates = try store.decide(UpkeepRules.removeCertificates(at: time, limit: Self.removalLimit))
        let federation = try store.decide(UpkeepRules.removeTokens(at: time, limit: Self.removalLimit))
        isRemoving = nonces.isMoreLeft || tokens.isMoreLeft || certificates.isMoreLeft || federation.isMoreLeft
        if isEnding || isRemoving { signal(.isWorkLeft) }
    }

    /// Folds a slice or checkpoints, if the store is idle or the journal or the log is long.
    private func tidy() {
        guard store.isAvailable else { return }
        store.makeLogRoom()
        do throws(StoreError) {
            if isTidying || store.journalLength > Self.journalBound {
                if try store.fold() { return signal(.isWorkLeft) }
            }
            if store.logPages > (isTidying ? 0 : Self.logBound) { try store.checkpoint() }
            isTidying = false
        } catch {
            failed()
        }
    }

    /// Moves everything into the file, as far as the store still works.
    func finish(_ done: @escaping () -> Void) {
        do throws(StoreError) {
            while try store.fold() {}
            try store.checkpoint()
        } catch {
            // The journal and the log contain the rest, and are read at the next opening.
        }
        store.markProgress(isSynced: true)
        done()
    }
}

extension RegistryCommand {
    /// Whether counters that arrived later may be committed before it. A revocation must refuse them.
    fileprivate var mayWait: Bool {
        switch self {
        case .initialize, .bindKey, .reattest, .noteSeen: true
        default: false
        }
    }
}

extension DeviceRegistry {
    /// Opens the store and starts its thread.
    ///
    /// - Parameters:
    ///   - creating: whether to create the file, with mode 0600, where there is none.
    ///   - witness: what it is compared with first.
    ///   - secret: what names in it are made with.
    ///   - isHandover: whether challenges of the process that had the store before remain valid. A fresh epoch refuses them
    ///     otherwise.
    ///   - observe: called on the store's thread when the store fails and recovers.
    public static func start(
        path: String, creating: Bool, witness: WitnessSettings? = nil, secret: SecretClaim? = nil,
        isHandover: Bool = false, limits: RegistryLimits = RegistryLimits(),
        observe: @escaping @Sendable (StoreEvent) -> Void
    ) throws(StoreOpenError) -> DeviceRegistry {
        try start(
            path: path, creating: creating, witness: witness, secret: secret, isHandover: isHandover, limits: limits,
            durability: .full, observe: observe)
    }

    /// The same, less durable than it promises: to show that tests notice.
    package static func start(
        path: String, creating: Bool, witness: WitnessSettings? = nil, secret: SecretClaim? = nil,
        isHandover: Bool = false, limits: RegistryLimits, durability: StoreOptions.Durability,
        observe: @escaping @Sendable (StoreEvent) -> Void
    ) throws(StoreOpenError) -> DeviceRegistry {
        var options = StoreOptions()
        options.recordLimit = limits.devices
        options.durability = durability
        return try start(
            path: path, creating: creating, witness: witness, secret: secret, isHandover: isHandover, limits: limits,
            options: options, observe: observe)
    }

    package static func start(
        path: String, creating: Bool, witness: WitnessSettings? = nil, secret: SecretClaim? = nil,
        isHandover: Bool = false, limits: RegistryLimits, options: StoreOptions,
        observe: @escaping @Sendable (StoreEvent) -> Void
    ) throws(StoreOpenError) -> DeviceRegistry {
        // Opened here, so that the caller learns what is wrong.
        let store = try RegistryStore(path: path, creating: creating, options: options, witness: witness)
        if let secret { try store.confirm(secret) }
        if !isHandover { try store.beginEpoch() }
        do {
            return try DeviceRegistry(SQLiteBackend(store), journal: witness?.health, limits: limits, observe: observe)
        } catch {
            throw .failed(path: path, detail: "cannot start the store's thread: \(error)")
        }
    }
}
