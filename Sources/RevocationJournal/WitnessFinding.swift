internal import Registry

/// The result of comparing a store with its witness.
enum WitnessFinding: Equatable {
    /// There was no journal. It is created from the store.
    case isFirst
    /// The journal is lost, and its content is unknown.
    case isLost
    /// The store went back in time, or is another store. All entries of the journal are repeated in it.
    ///
    /// - needsEpoch: Whether earlier proofs must be refused. It is false if another process has already drawn a fresh
    ///   epoch for the same event.
    case wentBack(RollbackEvidence, needsEpoch: Bool)
    /// The store has its previous progress, or more.
    ///
    /// - isBehind: Whether the journal may lack entries.
    /// - isAhead: Whether the journal may have entries that the store lacks, because lines were appended after the
    ///   mark.
    case isGood(isBehind: Bool, isAhead: Bool)

    /// The evidence that a store went back.
    enum RollbackEvidence: String {
        case noMark = "there is no commit mark beside the revocation journal"
        case otherStore = "it is another store than before"
        case otherLineage = "the database has moved"
        case olderEpoch = "its epoch is older than the last known one"
        case olderPosition = "it has fewer commits than were written"
        case olderStanding = "it has fewer revocations than were made"
        case otherRows = "it lacks revocations of the revocation journal, although no device was restored"
    }

    /// Compares a store with its witness.
    ///
    /// - Parameters:
    ///   - journal: The relation between the journal and the mark.
    ///   - mark: The mark. Nil if none is intact.
    ///   - isJournaled: Whether the store had a journal before.
    ///   - mayJoin: Whether other gateways may have journals for the same store, so that a missing one is created.
    ///   - lacks: Returns whether the journal has entries that the store lacks. It is called last, because it reads all
    ///     of both.
    init(
        _ store: StoreProgress, isJournaled: Bool, journal: JournalCondition, mark: CommitMark?, mayJoin: Bool,
        lacks: () throws -> Bool
    ) rethrows {
        if journal == .missing {
            // A mark is written beside a journal of any store. A mark of length 0 is written just before the first
            // journal.
            let hadJournal = isJournaled || mark.map { $0.journal.length > 0 } ?? false
            self = hadJournal && !mayJoin ? .isLost : .isFirst
            return
        }
        guard let mark else {
            self = .wentBack(.noMark, needsEpoch: true)
            return
        }
        if let reason = Self.reason(store, mark.progress) {
            // Entries that the store lost are in the journal. Entries that the journal lost too are nowhere.
            guard journal != .other else {
                self = .isLost
                return
            }
            // Epoch numbers of one store grow through all of its histories, so a greater number was drawn after the
            // rollback.
            let isRenewed = store.store == mark.progress.store && store.epochNumber > mark.progress.epochNumber
            self = .wentBack(reason, needsEpoch: !isRenewed)
            return
        }
        // All entries up to this standing are written, so the store has lost the missing ones. With a later standing an
        // operator may have restored the devices.
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
