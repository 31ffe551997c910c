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

    public init(
        time: Int64, store: RandomID, revocationList: Int64, tokensRemoved: Int64, secretCheck: Fingerprint?
    ) {
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
    func tokensRefused(at time: Int64) -> Int64 {
        min(tokensRemoved, max(self.time, time) + SingleUse.longestTokenLife)
    }

    /// The latest format version. Version 1 has no check value of a secret, and is written if the registry has none.
    static let version: Int64 = 2
    var version: Int64 { secretCheck == nil ? 1 : Self.version }
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

    /// The approximate size of the line in characters.
    var weight: Int { 1_024 + 200 * bindings.count + 2 * (receipt?.content.count ?? 0) }
}

public struct ExportedBinding: Equatable, Sendable {
    public let key: KeyID
    public let createdAt: Int64
    public let endsAt: Int64?
    public let endedAt: Int64?
}

public struct ExportedAttestation: Equatable, Sendable {
    public let digest: Fingerprint
    public let certificateKey: KeyID?
    /// The system version in the attestation. Nil if the attestation has none, and in exports of versions that did not
    /// keep it.
    public var systemVersion: SystemVersion?
}

/// A receipt with the state of its refresh.
public struct ExportedReceipt: Equatable, Sendable {
    public let content: [UInt8]
    public let riskMetric: UInt32?
    public let refresh: ReceiptRefresh
}

/// An issued certificate. It has its own line, because a device may have any number of them.
public struct ExportedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// The key of the binding that the certificate was issued for.
    public let key: KeyID
    public let notAfter: Int64
}

public struct BarredKey: Equatable, Sendable {
    public let key: KeyID
    public let kind: BarredKeyKind
    public let barredAt: Int64
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
    public internal(set) var devices: Int64 = 0
    public internal(set) var certificates: Int64 = 0
    public internal(set) var usedTokens: Int64 = 0
    public internal(set) var revokedSubjects: Int64 = 0
    public internal(set) var barredKeys: Int64 = 0

    public init() {}
}
