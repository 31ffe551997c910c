/// What the witness says of a store that is opened.
enum WitnessFinding: Equatable {
    /// There was no journal yet: it is made from the store.
    case isFirst
    /// The journal is gone, and nobody knows what it said.
    case isLost
    /// The store has gone back, or is another one: all that the journal says is done to it once more.
    ///
    /// - needsEpoch: whether earlier proofs must be refused. False if another process has drawn a fresh epoch for the
    ///   same move already.
    case wentBack(RollbackEvidence, needsEpoch: Bool)
    /// The store is where it was, or ahead.
    ///
    /// - isBehind: whether the journal may lack something.
    /// - isAhead: whether it may say something that the store does not: lines came after the mark was written.
    case isGood(isBehind: Bool, isAhead: Bool)

    /// What was noticed.
    enum RollbackEvidence: String {
        case noMark = "there is no commit mark beside the revocation journal"
        case otherStore = "it is another store than before"
        case otherLineage = "the database has moved"
        case olderEpoch = "its epoch is older than the last known one"
        case olderPosition = "it has fewer commits than were written"
        case olderStanding = "it has fewer revocations than were made"
        case otherRows = "it lacks revocations of the revocation journal, although no device was restored"
    }

    /// - Parameters:
    ///   - journal: how it stands to the mark.
    ///   - mark: nil if there is none that is whole.
    ///   - isJournaled: whether the store has had a journal.
    ///   - mayJoin: whether the journal may be one that others have for the same store, so that another is made.
    ///   - lacks: whether the journal says something that the store does not. Asked last: it looks at all of both.
    init(
        _ store: StoreProgress, isJournaled: Bool, journal: JournalCondition, mark: CommitMark?, mayJoin: Bool,
        lacks: () throws -> Bool
    ) rethrows {
        if journal == .missing {
            // A mark was written beside a journal, whichever store is here now; or just before the very first one was made.
            let hadJournal = isJournaled || mark.map { $0.journal.length > 0 } ?? false
            self = hadJournal && !mayJoin ? .isLost : .isFirst
            return
        }
        guard let mark else {
            self = .wentBack(.noMark, needsEpoch: true)
            return
        }
        if let reason = Self.reason(store, mark.progress) {
            // What the store has lost stands in the journal; what the journal has lost too, nowhere.
            guard journal != .other else {
                self = .isLost
                return
            }
            // Numbers of one store grow along its history, and over those of every history that was given up. One that is greater
            // was drawn after the move.
            let isRenewed = store.store == mark.progress.store && store.epochNumber > mark.progress.epochNumber
            self = .wentBack(reason, needsEpoch: !isRenewed)
            return
        }
        // All that was written down is of this standing, so what the store does not say of it was taken from the store. (Where the
        // standing has moved on, an operator may have restored it.)
        if store.standing == mark.progress.standing, try lacks() {
            self = .wentBack(.otherRows, needsEpoch: true)
            return
        }
        self = .isGood(
            isBehind: !isJournaled || store.standing != mark.progress.standing || journal == .other,
            isAhead: journal == .longer)
    }

    private static func reason(_ store: StoreProgress, _ mark: StoreProgress) -> RollbackEvidence? {
        if store.store != mark.store { return .otherStore }
        if store.lineage != mark.lineage { return .otherLineage }
        if store.epochNumber < mark.epochNumber { return .olderEpoch }
        if store.position < mark.position { return .olderPosition }
        if store.standing < mark.standing { return .olderStanding }
        return nil
    }
}
