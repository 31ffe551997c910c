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
