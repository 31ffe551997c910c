internal import Registry
internal import Vocabulary

/// The files of the witness with their content.
struct WitnessKeeper: ~Copyable {
    private let settings: WitnessSettings
    /// The lock on the journal. Nil while another process keeps the journal.
    private var lock: StoreLock?
    private var journal: JournalFile?
    private var marks: MarkFile
    /// The entries of the journal, with those that are still to be written.
    private var revocations: Revocations
    /// The relation between the journal and its mark at the opening. It is `asMarked` after a comparison with a store,
    /// because everything is in memory then.
    private var standing: JournalCondition
    private var backlog = WitnessBacklog()
    private var markFault: String?

    private static let slice = 500
    /// The time difference in seconds that requires a new mark by itself.
    private static let timePrecision: Int64 = 30

    init(_ settings: WitnessSettings) throws(StoreOpenError) {
        let found = try WitnessOpening(settings)
        self.settings = settings
        revocations = found.revocations
        standing = found.standing
        marks = found.marks
        lock = found.lock
        journal = found.journal
    }

    var hasJournal: Bool { standing != .missing }

    var marked: StoreProgress? { marks.mark?.progress }

    // MARK: - Opening of the store

    mutating func reconcile(
        _ store: some WitnessedStore, _ progress: StoreProgress, isJournaled: Bool, mayJoin: Bool
    ) throws -> Int64? {
        let time = readClock()
        let said = StoreRevocations()
        let written = revocations
        let finding = try WitnessFinding(
            progress, isJournaled: isJournaled, journal: standing, mark: marks.mark, mayJoin: mayJoin,
            // Another process may restore a device between the two reads.
            lacks: { try written.saysMore(than: said.all(of: store)) && store.standing() == progress.standing })
        let fresh = max(progress.epochNumber, marks.mark?.progress.epochNumber ?? 0) + 1
        var epoch: Int64?
        switch finding {
        case .isGood(let isBehind, let isAhead):
            if isAhead { try replayAll(to: store, said, at: time) }
            if isBehind { try complete(from: said.all(of: store), isGood: true, at: time) }
            if standing == .other { settings.notice(.journalExchanged(path: settings.path)) }
        case .isFirst:
            try begin(progress)
            try complete(from: said.all(of: store), isGood: true, at: time)
        case .isLost:
            guard settings.acceptsLoss else { throw StoreOpenError.revocationsLost(path: settings.path) }
            try replayAll(to: store, said, at: time)
            try complete(from: said.all(of: store), isGood: false, at: time)
            epoch = fresh
            settings.notice(.lossAccepted(path: settings.path))
        case .wentBack(let reason, let needsEpoch):
            try replayAll(to: store, said, at: time)
            try complete(from: said.all(of: store), isGood: false, at: time)
            epoch = needsEpoch ? fresh : nil
            settings.notice(.wentBack(reason: reason.rawValue, isEpochFresh: needsEpoch))
        }
        if !isJournaled { try store.becomeJournaled() }
        standing = .asMarked
        if epoch != nil { settings.health.hasDrawnEpoch = true }
        return epoch
    }

    /// Returns the current time, or the latest known time if the clock was set back. Bindings that ended by then stay
    /// ended.
    private func readClock() -> Int64 {
        let (now, latest) = (settings.clock(), marks.mark?.time ?? 0)
        if latest - now > WitnessNotice.clockTolerance { settings.notice(.clockBehind(seconds: latest - now)) }
        return max(now, latest)
    }

    /// Writes a mark of length 0 before the first journal. After a crash between the two, neither the mark nor the
    /// journal looks lost.
    private mutating func begin(_ progress: StoreProgress) throws(StoreOpenError) {
        guard lock != nil else { return }
        do throws(WitnessFault) {
            try marks.write(progress, journal: JournalExtent(), at: settings.clock(), isSynced: true)
        } catch {
            throw .revocations(path: settings.path, detail: error.detail)
        }
    }

    private func replayAll(to store: some WitnessedStore, _ said: StoreRevocations, at time: Int64) throws {
        defer { said.forget() }
        var slice: [WitnessEntry] = []
        for entry in revocations.entries {
            slice.append(entry)
            guard slice.count == Self.slice else { continue }
            try store.replay(slice, at: time)
            slice = []
        }
        if !slice.isEmpty { try store.replay(slice, at: time) }
    }

    /// Writes the entries that only the store has.
    ///
    /// - Parameters:
    ///   - said: All entries of the store.
    ///   - isGood: Whether the store is not older than the journal. Devices that it does not revoke were then restored.
    private mutating func complete(from said: Revocations, isGood: Bool, at time: Int64) throws {
        var news = said.entries.filter(revocations.isNews)
        if isGood {
            news += revocations.revoked.keys.filter { said.revoked[$0] == nil }.map { .restored($0, at: time) }
        }
        guard lock != nil, journal == nil else { return append(news) }
        for entry in news { revocations.apply(entry) }
        do throws(WitnessFault) {
            try forgetExtent()
            journal = try JournalFile(making: settings.path, revocations.entries)
        } catch {
            throw StoreOpenError.revocations(path: settings.path, detail: error.detail)
        }
    }

    // MARK: - Operation of the store

    mutating func append(_ entries: [WitnessEntry]) {
        var news: [WitnessEntry] = []
        for entry in entries where revocations.isNews(entry) {
            revocations.apply(entry)
            news.append(entry)
        }
        // Without the lock, the process that keeps the journal learns of the entries from the store.
        guard !news.isEmpty, lock != nil else { return }
        // Waiting entries are written first, at their time.
        let isFirst = backlog.isEmpty
        backlog.add(news)
        if isFirst { write() }
    }

    private mutating func write() {
        do throws(WitnessFault) {
            if journal?.isInPlace != true || backlog.isTooLong {
                try forgetExtent()
                journal = try JournalFile(making: settings.path, revocations.entries)
            } else {
                try journal?.append(backlog.entries)
            }
            backlog.written()
        } catch {
            backlog.failed()
            report(error.detail)
            return
        }
        report(markFault)
    }

    /// Marks only the header before another journal replaces the marked one. After a crash between the two, the journal
    /// does not look exchanged.
    private mutating func forgetExtent() throws(WitnessFault) {
        guard let mark = marks.mark, mark.journal.length > 0 else { return }
        try marks.write(
            mark.progress, journal: JournalExtent(length: Self.headerLength, sum: Self.headerSum), at: mark.time,
            isSynced: true)
    }

    private static let headerLength = JournalText.header.utf8.count
    private static let headerSum = Checksum.of(JournalText.header.utf8)

    /// Reports a change of health.
    ///
    /// - Parameter fault: The reason why something cannot be written. Nil if everything is written.
    private func report(_ fault: String?) {
        let wasComplete = settings.health.isComplete
        settings.health.isComplete = fault == nil
        if let fault {
            if wasComplete { settings.notice(.cannotWrite(fault)) }
        } else if !wasComplete {
            settings.notice(.writesAgain)
        }
    }

    mutating func tick(_ progress: StoreProgress) {
        if lock == nil { takeOver() }
        guard lock != nil else { return }
        if !backlog.isEmpty || journal?.isInPlace != true, backlog.isDue() { write() }
        mark(progress, isSynced: false)
    }

    mutating func mark(_ progress: StoreProgress, isSynced: Bool) {
        guard lock != nil else { return }
        var progress = progress
        // The mark does not pass entries that the journal lacks, so that the next opening compares both.
        if !backlog.isEmpty || journal?.isInPlace != true {
            let last = marks.mark?.progress
            progress.standing = last?.store == progress.store ? min(last?.standing ?? -1, progress.standing) : -1
        }
        let (extent, time) = (journal?.extent ?? JournalExtent(), settings.clock())
        if !isSynced, let mark = marks.mark, mark.progress == progress, mark.journal == extent,
            time - mark.time < Self.timePrecision
        {
            return
        }
        do throws(WitnessFault) {
            try marks.write(progress, journal: extent, at: time, isSynced: isSynced)
            let hadFault = markFault != nil
            markFault = nil
            if hadFault, backlog.isEmpty { report(nil) }
        } catch {
            markFault = error.detail
            report(error.detail)
        }
    }

    /// Takes over the journal after the process that kept it has ended.
    private mutating func takeOver() {
        guard let taken = try? StoreLock(path: settings.path) else { return }
        lock = consume taken
        do throws(WitnessFault) {
            marks = try MarkFile(settings.markPath)
            guard let content = try WitnessOpening.Journal(settings.path, marks.mark)?.content else { return }
            journal = try JournalFile(opening: settings.path, content)
            // The other process has not seen the latest entries of this one.
            let own = revocations
            revocations = content.revocations
            append(Array(own.entries))
        } catch {
            // The next tick rewrites the journal from memory.
            journal = nil
        }
    }
}

/// The state of the witness's files when a process opens them.
private struct WitnessOpening: ~Copyable {
    /// The lock. Nil while another process keeps the journal.
    var lock: StoreLock?
    var marks: MarkFile
    /// The journal. Nil if there is none, or another process keeps it.
    var journal: JournalFile?
    let revocations: Revocations
    let standing: JournalCondition

    init(_ settings: WitnessSettings) throws(StoreOpenError) {
        let path = settings.path
        try StoreFile.requireOrdinary(path, settings.markPath)
        let lock = try Self.take(settings)
        let isKept = lock != nil
        let marks = try Self.opening(path) { () throws(WitnessFault) in try MarkFile(settings.markPath) }
        let mark = marks.mark
        let found = try Self.opening(path) { () throws(WitnessFault) in try Journal(path, mark) }
        let journal = try Self.opening(path) { () throws(WitnessFault) -> JournalFile? in
            guard isKept, let found else { return nil }
            return try JournalFile(opening: path, found.content)
        }
        revocations = found?.content.revocations ?? Revocations()
        standing = found?.standing ?? .missing
        self.lock = lock
        self.marks = marks
        self.journal = journal
    }

    private static func opening<Result: ~Copyable>(
        _ path: String, _ body: () throws(WitnessFault) -> Result
    ) throws(StoreOpenError) -> Result {
        do throws(WitnessFault) { return try body() } catch { throw .revocations(path: path, detail: error.detail) }
    }

    /// A journal that was read.
    struct Journal {
        let content: JournalText.Content
        let standing: JournalCondition

        /// Reads a journal. Returns nil if there is none.
        ///
        /// - Parameter mark: The mark beside the journal. Nil without one.
        init?(_ path: String, _ mark: CommitMark?) throws(WitnessFault) {
            guard let bytes = try JournalFile.read(path) else { return nil }
            do throws(JournalText.Damage) {
                content = try JournalText.read(bytes, marked: mark?.journal.length)
            } catch {
                switch error {
                case .newer: throw WitnessFault(detail: "written by a later version of attestgate")
                case .line(let number):
                    throw WitnessFault(
                        detail: """
                            line \(number) is damaged: restore a good copy, or move the file away and start once \
                            with --accept-lost-revocations
                            """)
                }
            }
            standing = JournalCondition(bytes.prefix(content.length), mark)
        }
    }

    private static func take(_ settings: WitnessSettings) throws(StoreOpenError) -> StoreLock? {
        do throws(StoreOpenError) { return try StoreLock(path: settings.path) } catch {
            if settings.mayShare, case .locked = error { return nil }
            throw error
        }
    }
}

/// Entries that are still to be written, with the time of the next attempt.
private struct WitnessBacklog {
    private(set) var entries: [WitnessEntry] = []
    /// Whether there are too many entries to keep. The whole journal is then rewritten.
    private(set) var isTooLong = false
    /// The number of ticks until the next attempt.
    private var pause = 0
    private var nextPause = 1

    private static let limit = 1_024
    /// Half a minute at two ticks a second.
    private static let longestPause = 60

    var isEmpty: Bool { entries.isEmpty && !isTooLong }

    mutating func add(_ more: [WitnessEntry]) {
        guard !isTooLong else { return }
        entries += more
        guard entries.count > Self.limit else { return }
        entries = []
        isTooLong = true
    }

    mutating func isDue() -> Bool {
        pause -= 1
        return pause <= 0
    }

    mutating func failed() {
        pause = nextPause
        nextPause = min(2 * nextPause, Self.longestPause)
    }

    mutating func written() {
        self = WitnessBacklog()
    }
}

/// All revocations of a store, read at most once while it is compared with the journal.
final class StoreRevocations {
    private var said: Revocations?

    func all(of store: some WitnessedStore) throws -> Revocations {
        if let said { return said }
        var found = Revocations()
        try store.eachRevocation { for entry in $0 { found.apply(entry) } }
        said = found
        return found
    }

    /// Discards the entries, because the store has changed.
    func forget() { said = nil }
}
