internal import EventLoop
internal import Vocabulary

/// What stands in which order in an export, and how many there were: the head, then kind by kind, then the end. Within each kind
/// but devices by their bytes, upwards, so that none is there twice.
public struct ExportOrder {
    public private(set) var counts = ExportCounts()
    /// Whether the last line was there.
    public private(set) var hasEnded = false
    private var section: ExportSection?
    private var last: [UInt8] = []

    public init() {}

    /// Takes the next record.
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

/// The kinds of lines between head and end, in their order. Tokens stand behind devices: whatever token has brought in a
/// device that is there is then among the used ones, even if both have happened while the export ran.
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
    /// By which they are ordered.
    var place: [UInt8] { key.bytes + kind.rawValue.utf8 }
}

/// Some of the records of a registry, read at one moment: true together.
public struct ExportPage: Equatable, Sendable {
    /// Another one than before means that the pages are of two registries.
    public let store: RandomID
    public let records: [ExportRecord]
    /// Where the next page begins; nil if this was the last.
    public let next: ExportCursor?

    /// Rows of a page at most.
    public static let rows = 256
    /// Characters, about, after which a page ends: devices may have receipts of 16 KiB, and many bindings.
    static let weight = 1 << 20
    /// Bounds the time for which a page delays counters.
    static let time = TimeSpan.milliseconds(2)
}

/// A place in an export.
public struct ExportCursor: Hashable, Sendable {
    public let section: ExportSection
    /// Behind which row: the device's number in eight bytes, or by what the rows of the section are ordered; empty at its beginning.
    let after: [UInt8]

    /// With the head.
    public static let start = ExportCursor(section: .devices, after: [])

    init(section: ExportSection, after: [UInt8]) {
        self.section = section
        self.after = after
    }

    /// Where what follows a section begins; nil behind the last.
    init?(behind section: ExportSection) {
        guard let next = section.next else { return nil }
        self.init(section: next, after: [])
    }

    init(behind device: Int64) {
        self.init(section: .devices, after: (0..<8).map { UInt8(truncatingIfNeeded: device >> (56 - 8 * $0)) })
    }

    /// In the section of devices.
    var device: Int64 { after.reduce(0) { $0 << 8 | Int64($1) } }

    /// In the section of barred keys: the kind behind the key.
    var barred: (key: [UInt8], kind: String) {
        (Array(after.prefix(32)), String(decoding: after.dropFirst(32), as: UTF8.self))
    }
}

// As text, for queries: the section, a hyphen, and the bytes in lower-case hexadecimal.
extension ExportCursor: CustomStringConvertible {
    /// - Parameter text: as `description` writes it.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let section = ExportSection(rawValue: String(parts[0])),
            let after = Hexadecimal.decode(parts[1]), after.isEmpty || section.places.contains(after.count)
        else { return nil }
        // No device has a number that is negative.
        guard section != .devices || after.first.map({ $0 < 0x80 }) ?? true else { return nil }
        self.init(section: section, after: after)
    }

    public var description: String { "\(section.rawValue)-\(Hexadecimal.encode(after))" }
}

extension ExportSection {
    /// Lengths that a place in it may have.
    fileprivate var places: ClosedRange<Int> {
        switch self {
        case .devices: 8...8
        case .certificates: 1...20
        case .usedTokens, .revokedSubjects: 32...32
        case .barredKeys: 33...40
        }
    }
}
