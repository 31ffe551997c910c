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
    /// The last day on which the registry was asked about the device for a request, in days since 1970-01-01 UTC. Nil
    /// if it never was.
    public let lastSeen: Int64?

    package init(
        id: DeviceID, identity: DeviceIdentity, state: DeviceState, registeredAt: Int64, approvedAt: Int64?,
        revokedAt: Int64?, highestCounter: UInt32, subject: Fingerprint?, shown: ShownExtensions,
        lastSeen: Int64? = nil
    ) {
        self.id = id
        self.identity = identity
        self.state = state
        self.registeredAt = registeredAt
        self.approvedAt = approvedAt
        self.revokedAt = revokedAt
        self.highestCounter = highestCounter
        self.subject = subject
        self.shown = shown
        self.lastSeen = lastSeen
    }
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

/// The operating system that attested the key. It determines how the device proves requests.
public enum Platform: String, CaseIterable, Sendable {
    case iOS = "ios"
    case macOS = "macos"
    case tvOS = "tvos"
    case visionOS = "visionos"
    case watchOS = "watchos"
    case android

    /// Returns the platform of an app's devices unless another is stated.
    public static func standard(for app: AppID) -> Platform { app.isAndroid ? .android : .iOS }

    /// Returns whether the app's id has the form of this platform.
    public func runs(_ app: AppID) -> Bool { app.isAndroid == (self == .android) }
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
    package init(all: Int, revoked: Int, pending: Int, last: DeviceID?, limit: Int) {
        self.init(active: all - revoked - pending, pending: pending, revoked: revoked, next: all < limit ? nil : last)
    }
}

/// An mTLS key and the only device that it can ever be bound to.
public struct Binding: Equatable, Sendable {
    /// The key id of `keypair_mTLS`.
    public let key: KeyID
    public let device: DeviceID
    /// The time of the binding, in seconds since 1970-01-01T00:00:00Z.
    public let createdAt: Int64
    /// The end of the binding, in seconds since 1970-01-01T00:00:00Z. Nil while the binding is active.
    public let endedAt: Int64?
    /// The scheduled end, in seconds since 1970-01-01T00:00:00Z, which is set when another key replaces this one. Nil
    /// if no end is scheduled.
    public let endsAt: Int64?

    package init(key: KeyID, device: DeviceID, createdAt: Int64, endedAt: Int64?, endsAt: Int64?) {
        self.key = key
        self.device = device
        self.createdAt = createdAt
        self.endedAt = endedAt
        self.endsAt = endsAt
    }

    public var isActive: Bool { endedAt == nil }
}

/// A device with its bindings and the record of its attestation.
///
/// Bindings are sorted by creation time, then by key. A device that was registered without an attestation has no
/// record.
public struct DeviceDetails: Equatable, Sendable {
    public let device: Device
    public let bindings: [Binding]
    public let attestation: AttestationRecord?
    /// The state of the receipt refresh. Nil if the device was registered without a receipt.
    public package(set) var refresh: ReceiptRefresh?
    /// What the app has said last of its phone. Nil if it never did.
    public package(set) var signals: Signals?

    package init(
        device: Device, bindings: [Binding], attestation: AttestationRecord?, refresh: ReceiptRefresh? = nil,
        signals: Signals? = nil
    ) {
        self.signals = signals
        self.device = device
        self.bindings = bindings
        self.attestation = attestation
        self.refresh = refresh
    }
}

/// The kind of a barred key.
public enum BarredKeyKind: String, CaseIterable, Sendable {
    /// The hardware key of a device that was revoked.
    case hardware
    /// An mTLS key whose binding has ended.
    case mTLS = "mtls"
}

/// A page of revoked certificates, sorted by serial number.
public struct RevokedCertificatePage: Equatable, Sendable {
    public let certificates: [RevokedCertificate]
    /// The start of the next page. Nil after the last page.
    public let next: CertificateSerial?

    /// Creates a page from the certificates that were examined, sorted by serial number.
    ///
    /// - Parameter limit: The maximum number of examined certificates.
    package init(_ examined: [CertificateRecord], limit: Int, at time: Int64) {
        certificates = examined.compactMap { $0.revocation(at: time) }
        next = examined.count == limit ? examined.last?.serial : nil
    }
}

/// A certificate with the facts that decide on its revocation. Times are in seconds since 1970-01-01T00:00:00Z.
package struct CertificateRecord {
    package let serial: CertificateSerial
    package let notAfter: Int64
    package let deviceRevokedAt: Int64?
    package let bindingEndedAt: Int64?
    package let bindingEndsAt: Int64?

    package init(
        serial: CertificateSerial, notAfter: Int64, deviceRevokedAt: Int64?, bindingEndedAt: Int64?,
        bindingEndsAt: Int64?
    ) {
        self.serial = serial
        self.notAfter = notAfter
        self.deviceRevokedAt = deviceRevokedAt
        self.bindingEndedAt = bindingEndedAt
        self.bindingEndsAt = bindingEndsAt
    }

    /// The time for which an expired certificate stays on revocation lists, in seconds. It exceeds the life of a list:
    /// the certificate must be on one that was made after its expiry (RFC 5280 section 3.3).
    package static let listedAfterEnd: Int64 = 8 * 86_400

    /// The time for which a store keeps an expired certificate, in seconds: `KeyRenewal.longestGrace` and a day.
    package static let keptAfterEnd = KeyRenewal.longestGrace + 86_400

    /// Returns the entry of a revocation list.
    ///
    /// - Returns: nil for a certificate that is not revoked, or that expired too long ago to be listed.
    package func revocation(at time: Int64) -> RevokedCertificate? {
        guard notAfter > time - Self.listedAfterEnd else { return nil }
        // Bindings end at their time even if no process runs that records it.
        let ended = bindingEndedAt ?? bindingEndsAt.flatMap { $0 <= time ? $0 : nil }
        // The end of a binding is final, but a revoked device can be restored.
        if let ended {
            return RevokedCertificate(
                serial: serial, revokedAt: min(ended, deviceRevokedAt ?? ended),
                reason: bindingEndsAt == nil ? .cessationOfOperation : .superseded)
        }
        return deviceRevokedAt.map { RevokedCertificate(serial: serial, revokedAt: $0, reason: .certificateHold) }
    }
}
