internal import Synchronization

/// What lies outside a store and witnesses that it has not gone back: the revocation journal and the commit mark. Opened with the
/// store, by its process alone.
///
/// Used by one thread at a time, whichever has the store.
final class Witness: Sendable {
    private let keeper: Mutex<WitnessKeeper>

    /// - Throws: also if the journal is damaged.
    init(_ settings: WitnessSettings) throws(StoreOpenError) {
        keeper = Mutex(try WitnessKeeper(settings))
    }

    /// Compares a store with what is known of it, before anything is answered from it; and does to it what it has forgotten.
    ///
    /// - Parameters:
    ///   - isJournaled: whether the store has had a journal before.
    ///   - mayJoin: whether other gateways may have journals for the same store.
    /// - Returns: the number of the fresh epoch that the store is to draw; nil if it needs none. `mark` is to follow.
    func reconcile(
        _ store: some WitnessedStore, _ progress: StoreProgress, isJournaled: Bool, mayJoin: Bool
    ) throws -> Int64? {
        try keeper.withLock { try $0.reconcile(store, progress, isJournaled: isJournaled, mayJoin: mayJoin) }
    }

    /// Whether there is a journal, of whichever store.
    var hasJournal: Bool { keeper.withLock { $0.hasJournal } }

    /// How far the store had come when that was written down last; nil if it never was.
    var marked: StoreProgress? { keeper.withLock { $0.marked } }

    /// Makes the new entries durable. Entries that cannot be written now are written as soon as possible; the caller
    /// continues in either case.
    func append(_ entries: [WitnessEntry]) { keeper.withLock { $0.append(entries) } }

    /// Remembers how far the store has come. - Parameter isSynced: whether it is to be durable.
    func mark(_ progress: StoreProgress, isSynced: Bool) { keeper.withLock { $0.mark(progress, isSynced: isSynced) } }

    /// The same, each half second: without a sync, and trying again what could not be written.
    func tick(_ progress: StoreProgress) { keeper.withLock { $0.tick(progress) } }
}

/// A store as its witness sees it. Called while it is opened, by the thread that opens it.
protocol WitnessedStore: AnyObject {
    /// Calls `body` with all that the store says of keys that are no good, in slices.
    func eachRevocation(_ body: ([WitnessEntry]) -> Void) throws
    /// Does to the store what these say, in one transaction: it only ever revokes, ends and bars. Keys that it does not know are
    /// barred.
    func replay(_ entries: [WitnessEntry], at time: Int64) throws
    /// How often what is good has changed, as of now.
    func standing() throws -> Int64
    /// Remembers that there is a journal.
    func becomeJournaled() throws
}
