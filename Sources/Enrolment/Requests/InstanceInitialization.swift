public import Attestation
public import Cryptography
internal import Encoding
internal import Registry
public import Vocabulary

/// What a phone sends to have its hardware key registered. Nothing was verified.
public enum HardwareKeyAttestation: Equatable, Sendable {
    /// Apple's attestation in CBOR, of the key with this id.
    case apple([UInt8], KeyID)
    /// Android's certificates in DER, leaf first, and the app's name for the device.
    case android([[UInt8]], tag: [UInt8])
}

/// An attestation with the client data to which it must be bound.
public enum HardwareKeyEvidence: Sendable {
    case apple(AttestationEvidence)
    case android(KeyAttestationEvidence, tag: [UInt8])
}

/// The parsed content of `POST /instance-initialization`. Nothing was verified.
public struct InstanceInitialization: Equatable, Sendable {
    public let nonce: IssuedNonce
    public let attestation: HardwareKeyAttestation
    /// The uncompressed point of `keypair_mTLS`, 65 bytes and on the curve. Only from iPhones, in the form `dsr`.
    public let mtlsPublicKey: [UInt8]?
    /// The token of Google Play as received. Only from Android phones.
    let playIntegrityToken: [UInt8]?
    /// The text of `hardware_key_tag` as received.
    let tag: [UInt8]

    /// Parses the content.
    ///
    /// - Parameter content: JSON with unique members: `nonce`, `hardware_key_tag`, `key_attestation`, from iPhones in the
    ///   form `dsr` also `mtls_public_key`, and from Android phones optionally `play_integrity_token`.
    public init(_ content: [UInt8], _ library: LibraryContext) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.nonce, .hardwareKeyTag, .keyAttestation, .mtlsPublicKey, .playIntegrityToken]) else {
            throw .memberUnknown
        }
        for member in [RequestMember.nonce, .hardwareKeyTag, .keyAttestation] { _ = try body.required(member) }
        nonce = try body.nonce()
        tag = try body.text(.hardwareKeyTag)
        if case .array = try body.required(.keyAttestation) {
            let name = try body.bytes(.hardwareKeyTag, AttestationRecord.tagLengths)
            attestation = .android(try body.certificates(.keyAttestation), tag: name)
            playIntegrityToken = try body.playIntegrityToken()
        } else {
            guard body[RequestMember.playIntegrityToken.rawValue] == nil else { throw .memberUnknown }
            let keyID = try body.hardwareKeyID()
            playIntegrityToken = nil
            attestation = .apple(try body.bytes(.keyAttestation, 1...AttestationObject.lengthLimit), keyID)
        }
        mtlsPublicKey = try Self.point(body, library)
    }

    private static func point(_ body: JSONObject, _ library: LibraryContext) throws(EnrolmentFault) -> [UInt8]? {
        guard body[RequestMember.mtlsPublicKey.rawValue] != nil else { return nil }
        let point = try body.bytes(.mtlsPublicKey, 65...65)
        guard (try? P256VerificationKey(point: point.span, library)) != nil else { throw .valueFormat(.mtlsPublicKey) }
        return point
    }

    /// Returns the input of the platform's verifier. Its verdict covers the nonce only if the attestation's app is
    /// configured for this form.
    public func evidence(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> HardwareKeyEvidence {
        let hash = try clientDataHash(form, library)
        switch attestation {
        case .apple(let object, let keyID):
            return .apple(AttestationEvidence(attestation: object, clientDataHash: hash, keyID: keyID))
        case .android(let chain, let tag):
            return .android(KeyAttestationEvidence(certificates: chain, clientDataHash: hash), tag: tag)
        }
    }
}

/// The form of an app's argument to `attestKey(_:clientDataHash:)` or `setAttestationChallenge` at initialization,
/// configured for each app.
public enum ClientDataFormat: String, Sendable, CaseIterable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// As in deployed wallets: SHA-256(UTF-8(nonce)) on iOS, UTF-8(nonce) itself on Android.
    case nonce
    /// gematik's form. The nonce bytes are the decoded nonce. The attestation is also for `keypair_mTLS`, which must be
    /// bound first.
    ///
    /// On iOS: SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of `keypair_mTLS`)). On Android the attested
    /// key is `keypair_mTLS` itself: SHA-256(nonce bytes || "KEYPAIR_MTLS").
    case dsr
}

extension InstanceInitialization {
    /// Returns the expected client data of the attestation: a SHA-256, except in Android's form `nonce`.
    ///
    /// - Throws: `memberMissing` if `mtls_public_key` is missing in an iPhone's form `dsr`. `memberUnknown` if it is sent
    ///   otherwise, which would not cover it.
    public func clientDataHash(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> [UInt8] {
        if case .android = attestation {
            guard mtlsPublicKey == nil else { throw .memberUnknown }
            switch form {
            case .nonceAndTag: return try library.digest(of: nonce.text, tag).bytes
            case .nonce: return nonce.text
            case .dsr: return try library.digest(of: nonce.bytes, Array("KEYPAIR_MTLS".utf8)).bytes
            }
        }
        switch (form, mtlsPublicKey) {
        case (.nonceAndTag, nil): return try library.digest(of: nonce.text, tag).bytes
        case (.nonce, nil): return try library.digest(of: nonce.text).bytes
        case (.dsr, let point?):
            let integrity = try library.digest(of: nonce.bytes, Array("INTEGRITY".utf8))
            let key = try library.digest(of: point)
            return try library.digest(of: integrity.bytes, key.bytes).bytes
        case (.dsr, nil): throw .memberMissing(.mtlsPublicKey)
        case (.nonceAndTag, _?), (.nonce, _?): throw .memberUnknown
        }
    }
}
