public import Vocabulary

/// One app installation on one phone, as it is registered.
public struct Device: Equatable, Sendable {
    public let id: DeviceID
    public let identity: DeviceIdentity
    public let state: DeviceState
    /// Seconds since 1970-01-01T00:00:00Z.
    public let registeredAt: Int64
    /// When an operator approved it; nil if none has, or none needed to. Seconds since 1970-01-01T00:00:00Z.
    public let approvedAt: Int64?
    /// Seconds since 1970-01-01T00:00:00Z; nil unless revoked.
    public let revokedAt: Int64?
    /// The highest counter value accepted; 0 at registration.
    public let highestCounter: UInt32
    /// Whom it was admitted for, as a keyed pseudonym; nil if no token named anybody.
    public let subject: Fingerprint?
    /// What its attestation or one of its assertions has shown about the app. Nothing is ever taken out of it.
    public let shown: ShownExtensions
}

/// What a device is, once and for all: set at registration and never changed.
public struct DeviceIdentity: Equatable, Sendable {
    public let app: AppID
    public let platform: Platform
    public let environment: AttestationEnvironment
    /// SHA-256 of `point`; a hardware key is registered at most once. That they belong together is the caller's to see to:
    /// hashing is not the registry's business.
    public let hardwareKey: KeyID
    public let point: PublicPoint

    public init(
        app: AppID, platform: Platform, environment: AttestationEnvironment, hardwareKey: KeyID, point: PublicPoint
    ) {
        self.app = app
        self.platform = platform
        self.environment = environment
        self.hardwareKey = hardwareKey
        self.point = point
    }
}

public enum DeviceState: String, Sendable {
    /// Attested, and bound to no mTLS key yet: nobody can come as this device. It may wait for an operator's approval.
    case pending
    case active
    case revoked
}

/// The operating system that attested the key.
public enum Platform: String, CaseIterable, Sendable {
    case iOS = "ios"
    case macOS = "macos"
    case tvOS = "tvos"
    case visionOS = "visionos"
    case watchOS = "watchos"
    case android
}

/// What kind of attestation stands behind a device.
public enum AttestationEnvironment: String, CaseIterable, Sendable {
    case production
    case development
    /// A software phone, for tests and demonstrations.
    case simulator
}

/// A device in one store: the number of its row. Never used again for another device.
public struct DeviceID: Hashable, Comparable, Sendable {
    public let number: Int64

    /// - Parameter number: at least 1; nothing else is a device.
    public init?(_ number: Int64) {
        guard number >= 1 else { return nil }
        self.number = number
    }

    public static func < (left: DeviceID, right: DeviceID) -> Bool { left.number < right.number }
}

extension DeviceID: CustomStringConvertible {
    public var description: String { String(number) }
}

/// How many devices there are in each state, of those that were looked through.
public struct DeviceCount: Equatable, Sendable {
    public var active: Int
    public var pending: Int
    public var revoked: Int
    /// The last one that was looked at; nil if there are no more.
    public var next: DeviceID?

    public init(active: Int = 0, pending: Int = 0, revoked: Int = 0, next: DeviceID? = nil) {
        self.active = active
        self.pending = pending
        self.revoked = revoked
        self.next = next
    }

    /// - Parameters: as the stores count them.
    init(all: Int, revoked: Int, pending: Int, last: DeviceID?, limit: Int) {
        self.init(active: all - revoked - pending, pending: pending, revoked: revoked, next: all < limit ? nil : last)
    }

    /// What the stores count with, in the dialect that all of them speak.
    static let columns = """
        count(*), coalesce(sum(CASE WHEN revoked_at IS NOT NULL THEN 1 ELSE 0 END), 0), \
        coalesce(sum(CASE WHEN revoked_at IS NULL AND activated_at IS NULL THEN 1 ELSE 0 END), 0), max(id)
        """
}
