public import Vocabulary

/// One line of an export: something that a registry knows, in a form that every store can give and take. docs/operations/backup.md
/// says how it is written. Times are seconds since 1970-01-01T00:00:00Z.
public enum ExportRecord: Equatable, Sendable {
    /// The first line.
    case head(ExportHead)
    case device(ExportedDevice)
    case certificate(ExportedCertificate)
    /// An admission token that was used, for as long as it would be good.
    case usedToken(SingleUse)
    /// Whose devices are revoked, and no new ones admitted.
    case revokedSubject(Fingerprint, at: Int64)
    /// A key that is no good although no device or binding says so.
    case barredKey(BarredKey)
    /// The last line.
    case end(ExportEnd)
}

/// What an export is of.
public struct ExportHead: Equatable, Sendable {
    /// When it was begun.
    public let time: Int64
    public let store: RandomID
    /// The number of the latest revocation list.
    public let revocationList: Int64
    /// Tokens that expire by then are refused, whatever the clock says.
    public let tokensRemoved: Int64
    /// The check value of the secret that names were made with; nil if none was ever shown.
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

    /// `tokensRemoved`, as it is taken over: later than all that can have been used are only those of a clock that was ahead.
    func tokensRefused(at time: Int64) -> Int64 {
        min(tokensRemoved, max(self.time, time) + SingleUse.longestTokenLife)
    }

    /// The latest version of the form. The first knew no secrets, and is written where none was ever shown.
    static let version: Int64 = 2
    var version: Int64 { secretCheck == nil ? 1 : Self.version }
}

/// A device with all that is its own, but for its number: another store gives another.
public struct ExportedDevice: Equatable, Sendable {
    public var identity: DeviceIdentity
    public var registeredAt: Int64
    /// Nil while it is pending.
    public var activatedAt: Int64?
    public var approvedAt: Int64?
    public var revokedAt: Int64?
    public var subject: Fingerprint?
    public var shown: ShownExtensions
    public var window: CounterWindow
    /// In the order of their times, those of one second by their keys.
    public var bindings: [ExportedBinding]
    /// Nil if an operator has registered it.
    public var attestation: ExportedAttestation?
    public var receipt: ExportedReceipt?

    /// About how many characters it takes to write.
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
    /// Nil if the attestation states none, and in exports of versions that did not keep it.
    public var systemVersion: SystemVersion?
}

/// A receipt with what is known of exchanging it.
public struct ExportedReceipt: Equatable, Sendable {
    public let content: [UInt8]
    public let riskMetric: UInt32?
    public let refresh: ReceiptRefresh
}

/// A certificate that was issued. On a line of its own: a device may have any number of them.
public struct ExportedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// Of the binding it was issued for.
    public let key: KeyID
    public let notAfter: Int64
}

public struct BarredKey: Equatable, Sendable {
    public let key: KeyID
    public let kind: BarredKeyKind
    public let barredAt: Int64
}

/// What stands in the last line, so that a file that lacks something is not taken for a whole one.
public struct ExportEnd: Equatable, Sendable {
    public let counts: ExportCounts
    /// SHA-256 of all lines before this one, their ends included.
    public let digest: Fingerprint

    public init(counts: ExportCounts, digest: Fingerprint) {
        self.counts = counts
        self.digest = digest
    }
}

/// How many lines of each kind.
public struct ExportCounts: Equatable, Sendable {
    public internal(set) var devices: Int64 = 0
    public internal(set) var certificates: Int64 = 0
    public internal(set) var usedTokens: Int64 = 0
    public internal(set) var revokedSubjects: Int64 = 0
    public internal(set) var barredKeys: Int64 = 0

    public init() {}
}
