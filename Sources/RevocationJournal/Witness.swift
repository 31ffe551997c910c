package import Registry
internal import Synchronization

/// The witness of a store: the revocation journal and the commit mark, which are kept outside the store and detect that
/// it went back in time.
///
/// Only the process that opened the store uses it, on one thread at a time.
package final class Witness: Sendable {
    private let keeper: Mutex<WitnessKeeper>

    /// Opens the files of the witness.
    ///
    /// - Throws: `StoreOpenError`, also if the journal is damaged.
    package init(_ settings: WitnessSettings) throws(StoreOpenError) {
        keeper = Mutex(try WitnessKeeper(settings))
    }

    /// Compares a store with its witness before the store answers requests, and repeats lost revocations.
    ///
    /// The caller must call `mark` afterwards.
    ///
    /// - Parameters:
    ///   - isJournaled: Whether the store had a journal before.
    ///   - mayJoin: Whether other gateways may have journals for the same store.
    /// - Returns: The minimum number of the fresh epoch that the store must draw. Nil if it needs none.
    package func reconcile(
        _ store: some WitnessedStore, _ progress: StoreProgress, isJournaled: Bool, mayJoin: Bool
    ) throws -> Int64? {
        try keeper.withLock { try $0.reconcile(store, progress, isJournaled: isJournaled, mayJoin: mayJoin) }
    }

    /// Whether there is a journal, of this or another store.
    package var hasJournal: Bool { keeper.withLock { $0.hasJournal } }

    /// The progress in the last mark. Nil without a mark.
    package var marked: StoreProgress? { keeper.withLock { $0.marked } }

    /// Makes new entries durable. Entries that cannot be written now are retried, and this call returns without an
    /// error.
    package func append(_ entries: [WitnessEntry]) { keeper.withLock { $0.append(entries) } }

    /// Writes a mark.
    ///
    /// - Parameter isSynced: Whether the mark is durable when this returns.
    package func mark(_ progress: StoreProgress, isSynced: Bool) {
        keeper.withLock { $0.mark(progress, isSynced: isSynced) }
    }

    /// Writes an unsynced mark and retries failed writes. Called each half second.
    package func tick(_ progress: StoreProgress) { keeper.withLock { $0.tick(progress) } }
}

/// The interface between a store and its witness. The thread that opens the store calls it during the opening.
package protocol WitnessedStore: AnyObject {
    /// Calls `body` with all revocations, ends and bars of the store, in slices.
    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws
    /// Applies entries in one transaction. It only revokes, ends and bars. Unknown keys are barred.
    func replay(_ entries: [WitnessEntry], at time: Int64) throws
    /// Returns the current standing of the store.
    func standing() throws -> Int64
    /// Records in the store that it has a journal.
    func becomeJournaled() throws
}
