internal import EventLoop
internal import Vocabulary

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
