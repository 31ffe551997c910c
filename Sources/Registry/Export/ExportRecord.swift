internal import Encoding
package import EventLoop
public import Vocabulary

/// A line of an export, in a form that every store can write and read. Times are in seconds since 1970-01-01T00:00:00Z.
///
/// docs/operations/backup.md describes the format.
public enum ExportRecord: Equatable, Sendable {
    /// The first line.
    case head(ExportHead)
    case device(ExportedDevice)
    case certificate(ExportedCertificate)
    /// A used admission token that has not expired.
    case usedToken(SingleUse)
    /// A person whose devices are revoked. New devices are not admitted for this person.
    case revokedSubject(Fingerprint, at: Int64)
    /// A key that is barred although no device or binding says so.
    case barredKey(BarredKey)
    /// A service of the federation.
    case service(FederationService)
    case federationToken(FederationToken)
    /// The last line.
    case end(ExportEnd)
}

/// The first line of an export.
public struct ExportHead: Equatable, Sendable {
    /// The start time of the export.
    public let time: Int64
    public let store: RandomID
    /// The number of the latest revocation list.
    public let revocationList: Int64
    /// The time up to which expiring tokens are refused, whatever the clock says.
    public let tokensRemoved: Int64
    /// The check value of the secret for pseudonyms. Nil if no secret was ever used.
    public let secretCheck: Fingerprint?
    /// Whether there may be services and tokens of a federation.
    public let hasFederation: Bool

    public init(
        time: Int64, store: RandomID, revocationList: Int64, tokensRemoved: Int64, secretCheck: Fingerprint?,
        hasFederation: Bool = false
    ) {
        self.hasFederation = hasFederation
        self.secretCheck = secretCheck
        self.time = time
        self.store = store
        self.revocationList = revocationList
        self.tokensRemoved = tokensRemoved
    }

    /// Returns the value of `tokensRemoved` for an importing store.
    ///
    /// A token that was used before the export expires within an hour after it. A later value comes from a clock that
    /// was ahead.
    package func tokensRefused(at time: Int64) -> Int64 {
        min(tokensRemoved, max(self.time, time) + SingleUse.longestTokenLife)
    }

    /// The latest format version. Version 1 has no check value of a secret, and version 2 no federation; they are
    /// written if the registry has none.
    static let version: Int64 = 3
    var version: Int64 { hasFederation ? Self.version : secretCheck == nil ? 1 : 2 }
}

/// A device with its data, but without its number, because another store assigns another number.
public struct ExportedDevice: Equatable, Sendable {
    public var identity: DeviceIdentity
    public var registeredAt: Int64
    /// The activation time. Nil while the device is pending.
    public var activatedAt: Int64?
    public var approvedAt: Int64?
    public var revokedAt: Int64?
    public var subject: Fingerprint?
    public var shown: ShownExtensions
    public var window: CounterWindow
    /// The bindings, sorted by creation time, then by key.
    public var bindings: [ExportedBinding]
    /// The attestation. Nil if an operator registered the device.
    public var attestation: ExportedAttestation?
    public var receipt: ExportedReceipt?
    /// What the app has said last of its phone.
    public var signals: Signals?

    package init(
        identity: DeviceIdentity, registeredAt: Int64, activatedAt: Int64? = nil, approvedAt: Int64? = nil,
        revokedAt: Int64? = nil, subject: Fingerprint? = nil, shown: ShownExtensions, window: CounterWindow,
        bindings: [ExportedBinding], attestation: ExportedAttestation? = nil, receipt: ExportedReceipt? = nil,
        signals: Signals? = nil
    ) {
        self.signals = signals
        self.identity = identity
        self.registeredAt = registeredAt
        self.activatedAt = activatedAt
        self.approvedAt = approvedAt
        self.revokedAt = revokedAt
        self.subject = subject
        self.shown = shown
        self.window = window
        self.bindings = bindings
        self.attestation = attestation
        self.receipt = receipt
    }

    /// The approximate size of the line in characters.
    package var weight: Int {
        1_024 + 200 * bindings.count + 2 * (receipt?.content.count ?? 0) + 2 * (signals?.content.count ?? 0)
            + 60 * (attestation?.phone?.serials.count ?? 0)
    }
}

public struct ExportedBinding: Equatable, Sendable {
    public let key: KeyID
    public let createdAt: Int64
    public let endsAt: Int64?
    public let endedAt: Int64?

    package init(_ binding: Binding) {
        self.init(
            key: binding.key, createdAt: binding.createdAt, endsAt: binding.endsAt, endedAt: binding.endedAt)
    }

    package init(key: KeyID, createdAt: Int64, endsAt: Int64?, endedAt: Int64?) {
        self.key = key
        self.createdAt = createdAt
        self.endsAt = endsAt
        self.endedAt = endedAt
    }
}

public struct ExportedAttestation: Equatable, Sendable {
    public let digest: Fingerprint
    public let certificateKey: KeyID?
    /// The system version in the newest attestation. Nil if that has none, and in exports of versions that did not keep
    /// it.
    public package(set) var systemVersion: SystemVersion?
    /// What the newest attestation or assertion shows of an app on Apple's systems.
    public package(set) var app: ShownApp
    /// The name of the device for its Android app. Nil for others.
    public let tag: [UInt8]?
    /// What the newest attestation says of an Android phone. Nil for others.
    public package(set) var phone: AttestedPhone?
    /// The time of the newest attestation, of a certificate's key. Nil while there is none but that of the registration.
    public package(set) var attestedAt: Int64?
    /// Whether the newest certificate's key of an Android phone is attested. Nil if that is not known.
    public package(set) var isCertificateKeyAttested: Bool?
    /// Whether a certificate on which the phone's keys rest is listed as revoked.
    public package(set) var isKeyListed: Bool

    package init(
        digest: Fingerprint, certificateKey: KeyID?, systemVersion: SystemVersion? = nil, app: ShownApp = ShownApp(),
        tag: [UInt8]? = nil, phone: AttestedPhone? = nil, attestedAt: Int64? = nil,
        isCertificateKeyAttested: Bool? = nil, isKeyListed: Bool = false
    ) {
        self.digest = digest
        self.certificateKey = certificateKey
        self.systemVersion = systemVersion
        self.app = app
        self.tag = tag
        self.phone = phone
        self.attestedAt = attestedAt
        self.isCertificateKeyAttested = isCertificateKeyAttested
        self.isKeyListed = isKeyListed
    }

    /// Creates what an export has of a record. The receipt is apart.
    package init(_ record: AttestationRecord) {
        self.init(
            digest: record.digest, certificateKey: record.certificateKey, systemVersion: record.systemVersion,
            app: record.app, tag: record.tag, phone: record.phone, attestedAt: record.attestedAt,
            isCertificateKeyAttested: record.isCertificateKeyAttested, isKeyListed: record.isKeyListed)
    }
}

/// A receipt with the state of its refresh.
public struct ExportedReceipt: Equatable, Sendable {
    public let content: [UInt8]
    public let riskMetric: UInt32?
    public let refresh: ReceiptRefresh

    package init(content: [UInt8], riskMetric: UInt32?, refresh: ReceiptRefresh) {
        self.content = content
        self.riskMetric = riskMetric
        self.refresh = refresh
    }
}

/// An issued certificate. It has its own line, because a device may have any number of them.
public struct ExportedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// The key of the binding that the certificate was issued for.
    public let key: KeyID
    public let notAfter: Int64

    package init(serial: CertificateSerial, key: KeyID, notAfter: Int64) {
        self.serial = serial
        self.key = key
        self.notAfter = notAfter
    }
}

public struct BarredKey: Equatable, Sendable {
    public let key: KeyID
    public let kind: BarredKeyKind
    public let barredAt: Int64

    package init(key: KeyID, kind: BarredKeyKind, barredAt: Int64) {
        self.key = key
        self.kind = kind
        self.barredAt = barredAt
    }

    /// The sort key of a barred key.
    package var place: [UInt8] { key.bytes + kind.rawValue.utf8 }
}

/// The last line of an export, which detects a truncated file.
public struct ExportEnd: Equatable, Sendable {
    public let counts: ExportCounts
    /// The SHA-256 of all lines before this one, with their ends.
    public let digest: Fingerprint

    public init(counts: ExportCounts, digest: Fingerprint) {
        self.counts = counts
        self.digest = digest
    }
}

/// The number of lines in each section.
public struct ExportCounts: Equatable, Sendable {
    public package(set) var devices: Int64 = 0
    public package(set) var certificates: Int64 = 0
    public package(set) var usedTokens: Int64 = 0
    public package(set) var revokedSubjects: Int64 = 0
    public package(set) var barredKeys: Int64 = 0
    public package(set) var services: Int64 = 0
    public package(set) var federationTokens: Int64 = 0

    public init() {}
}

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
        case .service(let service):
            try follow(.services, Array(service.id.utf8))
            counts.services += 1
        case .federationToken(let token):
            try follow(.federationTokens, token.id.bytes)
            counts.federationTokens += 1
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
    case services
    case federationTokens = "federation"

    public static func < (left: ExportSection, right: ExportSection) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .devices: 0
        case .certificates: 1
        case .usedTokens: 2
        case .revokedSubjects: 3
        case .barredKeys: 4
        case .services: 5
        case .federationTokens: 6
        }
    }

    var next: ExportSection? { Self.allCases.first { self < $0 } }
}

/// A page of records that were read in one transaction.
public struct ExportPage: Equatable, Sendable {
    /// The id of the store. If it changes between pages, they belong to different registries.
    public let store: RandomID
    public let records: [ExportRecord]
    /// The start of the next page. Nil after the last page.
    public let next: ExportCursor?

    package init(store: RandomID, records: [ExportRecord], next: ExportCursor?) {
        self.store = store
        self.records = records
        self.next = next
    }

    /// The maximum number of rows in a page.
    public static let rows = 256
    /// The approximate size in characters after which a page ends. Devices may have receipts of 16 KiB and many
    /// bindings.
    package static let weight = 1 << 20
    /// The maximum time for reading a page, because a page delays counters.
    package static let time = TimeSpan.milliseconds(2)
}

/// A position in an export.
public struct ExportCursor: Hashable, Sendable {
    public let section: ExportSection
    /// The row before the position. It is the device's number in eight bytes, or the sort key of the section's rows.
    /// Empty at the start of a section.
    package let after: [UInt8]

    /// The start of the export, which includes the head.
    public static let start = ExportCursor(section: .devices, after: [])

    package init(section: ExportSection, after: [UInt8]) {
        self.section = section
        self.after = after
    }

    /// Creates the position after a section. Returns nil after the last section.
    package init?(behind section: ExportSection) {
        guard let next = section.next else { return nil }
        self.init(section: next, after: [])
    }

    package init(behind device: Int64) {
        self.init(section: .devices, after: (0..<8).map { UInt8(truncatingIfNeeded: device >> (56 - 8 * $0)) })
    }

    /// The device before a position in the section of devices.
    package var device: Int64 { after.reduce(0) { $0 << 8 | Int64($1) } }

    /// The key and the kind before a position in the section of barred keys.
    package var barred: (key: [UInt8], kind: String) {
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
        case .usedTokens, .revokedSubjects, .federationTokens: 32...32
        case .services: 36...36
        case .barredKeys: 33...40
        }
    }
}
