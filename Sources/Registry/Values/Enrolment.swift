public import Vocabulary

/// A request to register a device from a verified attestation. The device becomes pending, without a binding, unless
/// it is admitted at once.
public struct InstanceRegistration: Sendable {
    public let identity: DeviceIdentity
    public let attestation: AttestationRecord
    /// The app extensions that the attestation shows.
    public let shown: ShownExtensions
    /// The nonce of the attestation. It is spent only if the registration succeeds.
    public let nonce: SingleUse
    /// The epoch of the nonce.
    public let epoch: RandomID
    /// The maximum number of devices of the app that were attested for development and are not revoked. Nil for any, and
    /// without effect on others.
    public let developmentLimit: Int?
    /// The first binding of a device that is admitted at once. It is then active. Nil if the key is bound later.
    public let binding: FirstBinding?

    /// The first mTLS key of a device, with the person that it is admitted for.
    public struct FirstBinding: Sendable {
        /// The mTLS key, which is also `certificateKey` of the attestation.
        public let key: KeyID
        /// The number and the end of the certificate that will be issued for the key. As in `BindingRequest`.
        public let serial: CertificateSerial
        public let notAfter: Int64
        /// The keyed pseudonym of the person.
        public let subject: Fingerprint

        public init(key: KeyID, serial: CertificateSerial, notAfter: Int64, subject: Fingerprint) {
            self.key = key
            self.serial = serial
            self.notAfter = notAfter
            self.subject = subject
        }
    }

    public init(
        identity: DeviceIdentity, attestation: AttestationRecord, shown: ShownExtensions, nonce: SingleUse,
        epoch: RandomID, developmentLimit: Int? = nil, binding: FirstBinding? = nil
    ) {
        self.binding = binding
        self.developmentLimit = identity.environment == .development ? developmentLimit : nil
        self.identity = identity
        self.attestation = attestation
        self.shown = shown
        self.nonce = nonce
        self.epoch = epoch
    }
}

public enum InitializationVerdict: Equatable, Sendable {
    case registered(DeviceDetails)
    /// The same attestation as before, for a device without a binding, because the first response was lost. Nothing was
    /// written.
    case repeated(DeviceDetails)
    /// Nothing was written.
    case refused(InitializationRefusal)
}

public enum InitializationRefusal: Equatable, Sendable, CaseIterable {
    /// The nonce belongs to another epoch of the store.
    case epochChanged
    case nonceExpired
    /// The nonce was used in another initialization or in a key binding.
    case nonceUsed
    /// A device with the hardware key exists, and this is not a repetition of its attestation.
    case keyRegistered
    /// The device of the hardware key is revoked.
    case deviceRevoked
    /// Another device has the tag.
    case tagTaken
    /// As many devices for development are registered as the app may have.
    case tooManyForDevelopment
    /// The mTLS key of the first binding is or was bound.
    case keyBound
    /// A certificate with the serial number of the first binding exists. With 128 random bits this does not happen.
    case serialUsed
    /// The person of the first binding is revoked.
    case subjectRevoked
}

/// The stored properties of a device's attestations. `DeviceIdentity` has its app, platform and environment.
public struct AttestationRecord: Equatable, Sendable {
    /// The SHA-256 of the attestation object.
    public let digest: Fingerprint
    /// The mTLS key that the attestation names. The first binding must use this key. Nil if the attestation names none.
    public let certificateKey: KeyID?
    /// The newest receipt: that of the attestation, or its latest replacement. At most 16 KiB.
    public let receipt: [UInt8]?
    /// The risk metric of the receipt. Nil if the receipt has none.
    public let riskMetric: UInt32?
    /// The system version in the newest attestation. Nil if that has none.
    public let systemVersion: SystemVersion?
    /// What the newest attestation or assertion shows of an app on Apple's systems.
    public let app: ShownApp
    /// The name by which an Android app has its phone found at key bindings: 16 to 64 bytes, of one device only. Nil for
    /// others, which are found by their hardware key.
    public let tag: [UInt8]?
    /// What the newest attestation says of an Android phone. Nil for others.
    public let phone: AttestedPhone?
    /// The time of the newest attestation, of a certificate's key, in seconds since 1970-01-01T00:00:00Z. Nil while
    /// there is none but that of the registration.
    public let attestedAt: Int64?
    /// Whether the newest certificate's key of an Android phone is attested. Nil before the first, and for others.
    public let isCertificateKeyAttested: Bool?
    /// Whether a certificate on which the phone's keys rest is listed as revoked.
    public let isKeyListed: Bool

    public static let tagLengths = 16...64

    /// The maximum size of a receipt in bytes. A receipt is part of an attestation, which has the same limit.
    public static let receiptLimit = 16 * 1024

    /// Creates a record.
    ///
    /// - Returns: nil if the receipt exceeds `receiptLimit`, or the tag is not of `tagLengths`.
    public init?(
        digest: Fingerprint, certificateKey: KeyID? = nil, receipt: [UInt8]? = nil, riskMetric: UInt32? = nil,
        systemVersion: SystemVersion? = nil, app: ShownApp = ShownApp(), tag: [UInt8]? = nil,
        phone: AttestedPhone? = nil, attestedAt: Int64? = nil, isCertificateKeyAttested: Bool? = nil,
        isKeyListed: Bool = false
    ) {
        if let receipt, receipt.count > Self.receiptLimit { return nil }
        if let tag, !Self.tagLengths.contains(tag.count) { return nil }
        self.digest = digest
        self.certificateKey = certificateKey
        self.receipt = receipt
        self.riskMetric = riskMetric
        self.systemVersion = systemVersion
        self.app = app
        self.tag = tag
        self.phone = phone
        self.attestedAt = attestedAt
        self.isCertificateKeyAttested = isCertificateKeyAttested
        self.isKeyListed = isKeyListed
    }
}

/// A verified value that can be used once before it expires: an enrolment nonce or an admission token.
public struct SingleUse: Hashable, Sendable {
    /// The fingerprint of the unique part of the value.
    public let id: Fingerprint
    /// The expiry, in seconds since 1970-01-01T00:00:00Z. From then on the value is refused, used or not.
    public let expiresAt: Int64

    public init(id: Fingerprint, expiresAt: Int64) {
        self.id = id
        self.expiresAt = expiresAt
    }

    /// The maximum remaining lifetime of an admission token when it is presented, in seconds. Every used token expires
    /// within this time.
    public static let longestTokenLife: Int64 = 3_600
}

/// A verified request for a key binding: an assertion of the device's hardware key over an mTLS key and a nonce.
public struct BindingRequest: Sendable {
    /// The hardware key of the device.
    public let hardwareKey: KeyID
    /// The mTLS key.
    public let key: KeyID
    /// The nonce of the assertion. It is spent only if the binding succeeds.
    public let nonce: SingleUse
    /// The epoch of the nonce.
    public let epoch: RandomID
    /// The assertion's counter value, which is spent like that of any request.
    public let counter: UInt32
    /// The app extensions that the assertion shows.
    public let shown: ShownExtensions
    /// The counter mode of the device's app.
    public let mode: CounterMode
    public let admission: AdmissionGrant
    /// The time for which a replaced key remains valid, in seconds. At most a year.
    public let overlap: Int64
    /// The serial number of the certificate that will be issued for the key.
    ///
    /// It is written with the binding, so that every issued certificate is known. A serial number without a certificate
    /// is harmless.
    public let serial: CertificateSerial
    /// The end of that certificate's validity, in seconds since 1970-01-01T00:00:00Z.
    public let notAfter: Int64
    /// What the attestation of an Android phone's mTLS key says, or Google Play. It replaces what is stored, except the
    /// serial numbers, which it adds to. Nil if there is neither.
    public let phone: AttestedPhone?
    /// Whether an Android phone's mTLS key is attested. Nil for others.
    public let keyAttestation: CertificateKeyAttestation?
    /// What the assertion shows of an app on Apple's systems. It replaces what is stored, if it shows anything.
    public let app: ShownApp
    /// Whether a device that has bound a key may bind another one here.
    public let renewal: KeyRenewal

    public init(
        hardwareKey: KeyID, key: KeyID, nonce: SingleUse, epoch: RandomID, counter: UInt32,
        shown: ShownExtensions, mode: CounterMode, admission: AdmissionGrant, overlap: Int64, serial: CertificateSerial,
        notAfter: Int64, phone: AttestedPhone? = nil, keyAttestation: CertificateKeyAttestation? = nil,
        app: ShownApp = ShownApp(), renewal: KeyRenewal = .permitted
    ) {
        self.renewal = renewal
        self.hardwareKey = hardwareKey
        self.key = key
        self.nonce = nonce
        self.epoch = epoch
        self.counter = counter
        self.shown = shown
        self.mode = mode
        self.admission = admission
        self.overlap = min(max(0, overlap), 366 * 24 * 3_600)
        self.serial = serial
        self.notAfter = notAfter
        self.phone = phone
        self.keyAttestation = keyAttestation
        self.app = app
    }

    /// The maximum number of keys that a device may bind in its life. One key a month lasts 21 years.
    ///
    /// Rows of bindings are never deleted, and each look-up of a device reads them all. The limit bounds the cost of a
    /// look-up.
    static let keyLimit = 256
}

/// Whether a device that has bound a key may bind another, or get another certificate.
public enum KeyRenewal: Equatable, Sendable {
    case permitted
    /// Only the device of the mTLS connection.
    case ofDevice(DeviceID)
    /// Only after its last certificate has expired, for this time in seconds. Its newest key may be bound again soon
    /// after its first binding, because the answer may have been lost.
    case afterExpiry(grace: Int64)

    /// The maximum of `grace`, in seconds.
    public static let longestGrace: Int64 = 90 * 86_400
    /// The time in which a binding may be repeated, in seconds.
    public static let repetitionTime: Int64 = 3_600
}

/// Whether the mTLS key of an Android phone is attested.
public enum CertificateKeyAttestation: Equatable, Sendable {
    case missing
    /// It is the hardware key, which was attested at the registration.
    case earlier
    /// By a new attestation, which states this system version.
    case new(SystemVersion?)
}

/// The admission of a pending device. A token is checked whenever one is presented, for active devices too.
public enum AdmissionGrant: Sendable {
    /// Every genuine app is admitted.
    case open
    /// An operator must approve the device.
    case approval
    /// A token was presented. `subject` is the keyed pseudonym of the person that it was issued to.
    case token(SingleUse, subject: Fingerprint)
    /// Nothing was presented. This suffices for a device that was admitted before.
    case earlier
}

/// What an enrolled device has shown since. Its proof was verified, and the counter spent.
public struct Reattestation: Sendable {
    public let device: DeviceID
    /// Spent only if the request succeeds.
    public let nonce: SingleUse
    /// The epoch of the nonce.
    public let epoch: RandomID
    /// What a new attestation, or Google Play, says of an Android phone. As in `BindingRequest`.
    public let phone: AttestedPhone?
    /// The new attestation. Nil if there is none, as with a token of Google Play alone.
    public let evidence: Evidence?
    /// What the assertion shows of an app on Apple's systems.
    public let app: ShownApp
    /// What the app says of its phone. It replaces what is stored. Nil if it says nothing.
    public let signals: Signals?

    public enum Evidence: Equatable, Sendable {
        /// An assertion, which states no system version.
        case assertion
        case attestation(SystemVersion?)
    }

    public init(
        device: DeviceID, nonce: SingleUse, epoch: RandomID, phone: AttestedPhone?, evidence: Evidence?, app: ShownApp,
        signals: Signals? = nil
    ) {
        self.signals = signals
        self.device = device
        self.nonce = nonce
        self.epoch = epoch
        self.phone = phone
        self.evidence = evidence
        self.app = app
    }
}

public enum ReattestationVerdict: Equatable, Sendable {
    case renewed(DeviceDetails)
    /// Nothing was written.
    case refused(KeyBindingRefusal)
}

public enum KeyBindingVerdict: Equatable, Sendable {
    case bound(DeviceDetails, KeyBindingKind)
    /// Nothing was written. The counter value is not spent.
    case refused(KeyBindingRefusal)
}

public enum KeyBindingKind: Equatable, Sendable {
    /// The first key of the device, which becomes active.
    case first
    /// A further key. Earlier bindings end after their overlap.
    case rotation
    /// A new certificate for a key that is bound to this device already. Bindings do not change.
    case renewal
}

public enum KeyBindingRefusal: Equatable, Sendable, CaseIterable {
    /// The nonce belongs to another epoch of the store.
    case epochChanged
    case nonceExpired
    case nonceUsed
    case deviceUnknown
    case deviceRevoked
    /// The mTLS key is or was bound to another device, or its binding to this one has ended or has a scheduled end.
    case keyBound
    /// The attestation names another mTLS key for the first binding.
    case keyMismatch
    /// The device has reached the limit `BindingRequest.keyLimit`.
    case tooManyKeys
    case awaitingApproval
    /// The device is pending, and the request presents no admission.
    case admissionRequired
    case tokenExpired
    case tokenUsed
    case subjectRevoked
    /// The device was admitted for another subject.
    case subjectMismatch
    /// A certificate with this serial number exists. With 128 random bits this does not happen.
    case serialUsed
    /// The assertion lacks an extension that an earlier one of the key has shown.
    case extensionWithheld
    /// Only the device's own connection may renew its key.
    case renewalElsewhere
    case counterReplayed
    case counterLate
}
