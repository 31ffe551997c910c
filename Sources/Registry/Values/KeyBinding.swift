public import Vocabulary

/// A verified key binding: an assertion of the device's hardware key over an mTLS key and a nonce.
public struct BindingRequest: Sendable {
    /// By which the device is known.
    public let hardwareKey: KeyID
    /// The mTLS key.
    public let key: KeyID
    /// Spent if, and only if, this succeeds.
    public let nonce: SingleUse
    /// Of the nonce.
    public let epoch: RandomID
    /// The assertion's counter value, consumed like that of any request.
    public let counter: UInt32
    /// By the assertion.
    public let shown: ShownExtensions
    /// Of the device's app.
    public let mode: CounterMode
    public let admission: AdmissionGrant
    /// How many seconds a key that is replaced stays good; at most a year.
    public let overlap: Int64
    /// Of the certificate that will be issued for the key. Written down with the binding, so that none can be that is not
    /// known; one that is never issued after all does no harm.
    public let serial: CertificateSerial
    /// When that certificate ends, in seconds since 1970-01-01T00:00:00Z.
    public let notAfter: Int64

    public init(
        hardwareKey: KeyID, key: KeyID, nonce: SingleUse, epoch: RandomID, counter: UInt32,
        shown: ShownExtensions, mode: CounterMode, admission: AdmissionGrant, overlap: Int64, serial: CertificateSerial,
        notAfter: Int64
    ) {
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
    }

    /// Keys that a device may bind in its life: at one a month, for 21 years. Rows of bindings stay for ever, and all of a
    /// device's are read for each question about it: without an end one phone could make them as slow as it likes.
    static let keyLimit = 256

    /// Why the device may not bind the key, as far as neither time nor admission say.
    ///
    /// - Parameters:
    ///   - details: of the device.
    ///   - isBound: whether the key is or was bound, to whichever device.
    ///   - isIssued: whether there is a certificate of the number.
    func refusal(by details: DeviceDetails, isBound: Bool, isIssued: Bool) -> KeyBindingRefusal? {
        guard details.device.state != .revoked else { return .deviceRevoked }
        if isBound {
            // One that is to end has a successor, and does not come back in its place.
            guard let own = details.bindings.first(where: { $0.key == key }), own.isActive, own.endsAt == nil
            else { return .keyBound }
        } else {
            guard details.bindings.count < Self.keyLimit else { return .tooManyKeys }
        }
        guard shown.isSuperset(of: details.device.shown) else { return .extensionWithheld }
        if isIssued { return .serialUsed }
        if details.bindings.isEmpty, let attested = details.attestation?.certificateKey, attested != key {
            return .keyMismatch
        }
        return nil
    }
}

/// Why a device may come in. Asked of pending devices; a token is looked at whenever it is shown.
public enum AdmissionGrant: Sendable {
    /// Any genuine app may.
    case open
    /// An operator has approved the device, or has yet to.
    case approval
    /// A token was shown. - subject: the keyed pseudonym of whom it was issued to.
    case token(SingleUse, subject: Fingerprint)
    /// Nothing was shown: enough for a device that was admitted before.
    case earlier
}

public enum KeyBindingVerdict: Equatable, Sendable {
    case bound(DeviceDetails, KeyBindingKind)
    /// Nothing was written; the counter value is not spent.
    case refused(KeyBindingRefusal)
}

public enum KeyBindingKind: Equatable, Sendable {
    /// The device's first key; the device is active from here on.
    case first
    /// The keys before end when their overlap does.
    case rotation
    /// The key is bound to this device already: the certificate was lost, or ends soon. Bindings stay as they are.
    case renewal
}

public enum KeyBindingRefusal: Equatable, Sendable, CaseIterable {
    /// The nonce is of another epoch of the store.
    case epochChanged
    case nonceExpired
    case nonceUsed
    case deviceUnknown
    case deviceRevoked
    /// The mTLS key is or was bound to another device, or its binding to this one has ended or is about to.
    case keyBound
    /// The attestation names another mTLS key for the first binding.
    case keyMismatch
    /// The device has bound as many keys as one may in its life: `BindingRequest.keyLimit`.
    case tooManyKeys
    case awaitingApproval
    /// The device is pending, and nothing was shown that admits it.
    case admissionRequired
    case tokenExpired
    case tokenUsed
    case subjectRevoked
    /// The device was admitted for another subject.
    case subjectMismatch
    /// Two certificates with one serial number could not be distinguished. With 128 random bits this does not happen.
    case serialUsed
    /// The key has shown an extension that the assertion lacks.
    case extensionWithheld
    case counterReplayed
    case counterLate
}
