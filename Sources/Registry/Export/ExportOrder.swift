internal import EventLoop
internal import Vocabulary

/// A check of the order and number of records in an export: the head, the sections, the end.
///
/// Records of each section except devices are sorted by their bytes, so that duplicates are found.
public struct ExportOrder {
    public private(set) var counts = ExportCounts()
    /// Whether the last line was read.
    public private(set) var hasEnded = false
    private var section: ExportSection?
    private var last: [UInt8] = []

    public init() {}

    /// Adds the next record.
    ///
    /// - Throws: `ExportFault` if the record is not allowed at this position.
    public mutating func add(_ record: ExportRecord) throws(ExportFault) {
        guard !hasEnded else { throw ExportFault("there is data after the last line") }
        if case .head = record {
            guard section == nil else { throw ExportFault("the head occurs twice") }
            section = .devices
            return
        }
        guard let section else { throw ExportFault("not an export of a registry: its first line is not a head") }
        switch record {
        case .head: break
        case .device:
            guard section == .devices else { throw ExportFault("a device is after the section of devices") }
            counts.devices += 1
        case .certificate(let certificate):
            try follow(.certificates, certificate.serial.bytes)
            counts.certificates += 1
        case .usedToken(let token):
            try follow(.usedTokens, token.id.bytes)
            counts.usedTokens += 1
        case .revokedSubject(let subject, _):
            try follow(.revokedSubjects, subject.bytes)
            counts.revokedSubjects += 1
        case .barredKey(let barred):
            try follow(.barredKeys, barred.place)
            counts.barredKeys += 1
        case .end(let end):
            hasEnded = true
            guard end.counts == counts else { throw ExportFault("the counts in the last line are wrong") }
        }
    }

    private mutating func follow(_ next: ExportSection, _ place: [UInt8]) throws(ExportFault) {
        guard let section, section <= next else { throw ExportFault("the line is after the section of its kind") }
        if section == next, !last.lexicographicallyPrecedes(place) {
            throw ExportFault("the line is a duplicate or out of order")
        }
        self.section = next
        last = place
    }
}

/// The sections between head and end, in order.
///
/// Tokens follow devices. A token that admitted an exported device is then always among the exported tokens, even if it
/// was used during the export.
public enum ExportSection: String, CaseIterable, Comparable, Sendable {
    case devices
    case certificates
    case usedTokens = "tokens"
    case revokedSubjects = "subjects"
    case barredKeys = "barred"

    public static func < (left: ExportSection, right: ExportSection) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .devices: 0
        case .certificates: 1
        case .usedTokens: 2
        case .revokedSubjects: 3
        case .barredKeys: 4
        }
    }

    var next: ExportSection? { Self.allCases.first { self < $0 } }
}

extension BarredKey {
    /// The sort key of a barred key.
    var place: [UInt8] { key.bytes + kind.rawValue.utf8 }
}

/// A page of records that were read in one transaction.
public struct ExportPage: Equatable, Sendable {
    /// The id of the store. If it changes between pages, they belong to different registries.
    public let store: RandomID
    public let records: [ExportRecord]
    /// The start of the next page. Nil after the last page.
    public let next: ExportCursor?

    /// The maximum number of rows in a page.
    public static let rows = 256
    /// The approximate size in characters after which a page ends. Devices may have receipts of 16 KiB and many
    /// bindings.
    static let weight = 1 << 20
    /// The maximum time for reading a page, because a page delays counters.
    static let time = TimeSpan.milliseconds(2)
}

/// A position in an export.
public struct ExportCursor: Hashable, Sendable {
    public let section: ExportSection
    /// The row before the position. It is the device's number in eight bytes, or the sort key of the section's rows.
    /// Empty at the start of a section.
    let after: [UInt8]

    /// The start of the export, which includes the head.
    public static let start = ExportCursor(section: .devices, after: [])

    init(section: ExportSection, after: [UInt8]) {
        self.section = section
        self.after = after
    }

    /// Creates the position after a section. Returns nil after the last section.
    init?(behind section: ExportSection) {
        guard let next = section.next else { return nil }
        self.init(section: next, after: [])
    }

    init(behind device: Int64) {
        self.init(section: .devices, after: (0..<8).map { UInt8(truncatingIfNeeded: device >> (56 - 8 * $0)) })
    }

    /// The device before a position in the section of devices.
    var device: Int64 { after.reduce(0) { $0 << 8 | Int64($1) } }

    /// The key and the kind before a position in the section of barred keys.
    var barred: (key: [UInt8], kind: String) {
        (Array(after.prefix(32)), String(decoding: after.dropFirst(32), as: UTF8.self))
    }
}

// The text form for queries: the section, a hyphen, and the bytes in lower-case hexadecimal.
extension ExportCursor: CustomStringConvertible {
    /// Parses the form of `description`.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let section = ExportSection(rawValue: String(parts[0])),
            let after = Hexadecimal.decode(parts[1]), after.isEmpty || section.places.contains(after.count)
        else { return nil }
        // Numbers of devices are not negative.
        guard section != .devices || after.first.map({ $0 < 0x80 }) ?? true else { return nil }
        self.init(section: section, after: after)
    }

    public var description: String { "\(section.rawValue)-\(Hexadecimal.encode(after))" }
}

extension ExportSection {
    /// The valid lengths of a sort key in the section.
    fileprivate var places: ClosedRange<Int> {
        switch self {
        case .devices: 8...8
        case .certificates: 1...20
        case .usedTokens, .revokedSubjects: 32...32
        case .barredKeys: 33...40
        }
    }
}
