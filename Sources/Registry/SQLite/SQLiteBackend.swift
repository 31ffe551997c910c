internal import EventLoop
internal import Vocabulary

/// The store in a file, as the store's thread asks it. It answers each question before the call returns; what nobody waits for
/// it does in slices, between requests.
final class SQLiteBackend: StoreBackend {
    private let store: RegistryStore
    private var signal: (StoreSignal) -> Void = { _ in }
    /// As of the last tick.
    private var time: Int64 = 0
    /// Whether a counter was committed since the last tick.
    private var isBusy = false
    private var isTidying = false
    /// Whether more may be due to end, or to be removed, than one slice does.
    private var isEnding = false
    private var isRemoving = false

    /// Journal rows, at about 24 bytes in memory and in the file, beyond which slices are folded under load too.
    private static let journalBound = 32_768
    /// Pages of 4 KiB in the log, beyond which it is moved into the file under load too.
    private static let logBound = 8_192
    /// Bindings ended in one transaction.
    private static let endingLimit = 256

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

    // MARK: - Questions

    func commit(_ entries: [CounterEntry], answer: @escaping (Int, CounterOutcome) -> Void) {
        isBusy = true
        isTidying = false
        let outcomes = watchingFailure { store.commit(entries) }
        if store.isAvailable {
            signal(.confirmed(at: .now))
            let committed = outcomes.count { $0 == .committed }
            if committed > 0 { signal(.committed(committed)) }
        }
        for (index, outcome) in outcomes.enumerated() { answer(index, outcome) }
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
        let result = watchingFailure { store.perform(command, at: time) }
        if case .success(let reply) = result { signal(.changes(StoreChange.all(of: command, reply))) }
        answer(result)
    }

    private func watchingFailure<Answer>(_ ask: () -> Answer) -> Answer {
        let wasAvailable = store.isAvailable
        let answer = ask()
        if wasAvailable, !store.isAvailable { failed() }
        return answer
    }

    private func failed() { signal(.failed(store.lastFault ?? "unknown")) }

    // MARK: - Time between questions

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
        if isEnding || isRemoving { expire() }
        tidy()
    }

    private func reopen() {
        let before = store.identity
        do throws(StoreOpenError) {
            try store.reopen()
        } catch {
            // Here it was there once.
            guard case .missing(let path) = error else { return signal(.cannotReopen(error.description)) }
            return signal(
                .cannotReopen("\(path): missing: restore it with its -wal, or stop the gateway and restore a backup"))
        }
        // Of a file that had gone back meanwhile.
        if store.identity != before { signal(.changes([.identity(store.identity)])) }
        signal(.reopened)
        // Again before anything is answered.
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

    /// One slice of what ends with time: bindings whose overlap is over; nonces, tokens and certificates that need not be remembered.
    private func expireSlice(at time: Int64) throws(StoreError) {
        let ended = try store.endDueBindings(at: time, limit: Self.endingLimit)
        if !ended.isEmpty { signal(.changes([.ended(ended)])) }
        isEnding = ended.count == Self.endingLimit
        let isLeft = try store.removeExpired(at: time)
        isRemoving = try store.removeEndedCertificates(at: time) || isLeft
        if isEnding || isRemoving { signal(.isWorkLeft) }
    }

    /// One slice of folding, or a checkpoint: when idle, or when the journal or the log is long.
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

    /// Leaves everything in the file itself, as far as the store still works.
    func finish(_ done: @escaping () -> Void) {
        do throws(StoreError) {
            while try store.fold() {}
            try store.checkpoint()
        } catch {
            // The journal and the log hold it all, and are read when the file is opened again.
        }
        store.markProgress(isSynced: true)
        done()
    }
}
