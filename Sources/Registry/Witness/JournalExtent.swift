/// How much of a journal is durable, and which journal it is: a longer journal that was rewritten does not begin with
/// it.
struct JournalExtent: Equatable, Sendable {
    /// Octets.
    var length = 0
    /// CRC-32 of them; nil in marks that are older than this field.
    var sum: UInt32? = 0

    /// What is appended costs what is appended, not all that was there.
    mutating func append(_ bytes: some Collection<UInt8>) {
        length += bytes.count
        sum = sum.map { Checksum.of(bytes, behind: $0) }
    }

    /// Whether a journal begins with it. - Parameter bytes: of the journal, up to where all is well.
    func isBeginning(of bytes: ArraySlice<UInt8>) -> Bool {
        length <= bytes.count && sum.map { $0 == Checksum.of(bytes.prefix(length)) } ?? true
    }
}

/// How the journal stands to the mark beside it.
enum JournalCondition {
    /// There is none.
    case missing
    /// It lacks something of what was durable when the mark was written, or is another one. Without a mark nobody knows.
    case other
    case asMarked
    /// Lines were appended since.
    case longer

    /// - Parameter mark: nil if there is none that is whole.
    init(_ bytes: ArraySlice<UInt8>, _ mark: CommitMark?) {
        guard let mark, mark.journal.isBeginning(of: bytes) else {
            self = .other
            return
        }
        self = bytes.count == mark.journal.length ? .asMarked : .longer
    }
}
