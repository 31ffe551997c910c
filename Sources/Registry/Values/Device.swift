public import Vocabulary

/// The registration of an app installation on a phone.
public struct Device: Equatable, Sendable {
    public let id: DeviceID
    public let identity: DeviceIdentity
    public let state: DeviceState
    /// The registration time, in seconds since 1970-01-01T00:00:00Z.
    public let registeredAt: Int64
    /// The time of the operator's approval, in seconds since 1970-01-01T00:00:00Z. Nil without an approval.
    public let approvedAt: Int64?
    /// The time of the revocation, in seconds since 1970-01-01T00:00:00Z. Nil unless the device is revoked.
    public let revokedAt: Int64?
    /// The highest accepted counter value. It is 0 at registration.
    public let highestCounter: UInt32
    /// The keyed pseudonym of the person that the device was admitted for. Nil if no token named a person.
    public let subject: Fingerprint?
    /// The app extensions that the attestation or any assertion has shown. Extensions are only added.
    public let shown: ShownExtensions
}

/// The immutable properties of a device, set at registration.
public struct DeviceIdentity: Equatable, Sendable {
    public let app: AppID
    public let platform: Platform
    public let environment: AttestationEnvironment
    /// The SHA-256 of `point`. A hardware key is registered at most once.
    ///
    /// The caller ensures that both belong together, because the registry does not hash.
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
    /// The device is attested but bound to no mTLS key, so no request can use it. It may need an operator's approval.
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

/// The kind of attestation that a device was registered with.
public enum AttestationEnvironment: String, CaseIterable, Sendable {
    case production
    case development
    /// A simulated phone, for tests and demonstrations.
    case simulator
}

/// The row number of a device in one store. Numbers are never reused.
public struct DeviceID: Hashable, Comparable, Sendable {
    public let number: Int64

    /// Creates an id.
    ///
    /// - Parameter number: At least 1. Other numbers return nil.
    public init?(_ number: Int64) {
        guard number >= 1 else { return nil }
        self.number = number
    }

    public static func < (left: DeviceID, right: DeviceID) -> Bool { left.number < right.number }
}

extension DeviceID: CustomStringConvertible {
    public var description: String { String(number) }
}

/// The number of devices in each state, among those that were examined.
public struct DeviceCount: Equatable, Sendable {
    public var active: Int
    public var pending: Int
    public var revoked: Int
    /// The last device that was examined. Nil if there are no more.
    public var next: DeviceID?

    public init(active: Int = 0, pending: Int = 0, revoked: Int = 0, next: DeviceID? = nil) {
        self.active = active
        self.pending = pending
        self.revoked = revoked
        self.next = next
    }

    /// Creates a count from the aggregates of `columns`.
    ///
    /// - Parameters:
    ///   - all: The number of examined rows.
    ///   - last: The last examined device.
    ///   - limit: The maximum number of examined rows.
    init(all: Int, revoked: Int, pending: Int, last: DeviceID?, limit: Int) {
        self.init(active: all - revoked - pending, pending: pending, revoked: revoked, next: all < limit ? nil : last)
    }
}
