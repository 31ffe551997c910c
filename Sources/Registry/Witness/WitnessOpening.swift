/// What lies in the witness's files when a process comes.
struct WitnessOpening: ~Copyable {
    /// Nil if another process keeps the journal.
    var lock: StoreLock?
    var marks: MarkFile
    /// Nil if there is no journal, or another process keeps it.
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

    /// A journal as it was found.
    struct Journal {
        let content: JournalText.Content
        let standing: JournalCondition

        /// Nil if there is none. - Parameter mark: the one beside it; nil if there is none.
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
