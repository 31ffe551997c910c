public import Attestation
public import Cryptography
internal import Encoding
public import Vocabulary

/// The parsed content of `POST /instance-initialization`. Nothing was verified.
public struct InstanceInitialization: Equatable, Sendable {
    public let nonce: IssuedNonce
    /// The hardware key's key id, which `hardware_key_tag` encodes.
    public let keyID: KeyID
    /// The attestation in CBOR.
    public let attestation: [UInt8]
    /// The uncompressed point of `keypair_mTLS`, 65 bytes and on the curve. Only in the form `dsr`.
    public let mtlsPublicKey: [UInt8]?
    /// The text of `hardware_key_tag` as received.
    let tag: [UInt8]

    /// Parses the content.
    ///
    /// - Parameter content: JSON with unique members: `nonce`, `hardware_key_tag`, `key_attestation`, and in the form
    ///   `dsr` also `mtls_public_key`.
    public init(_ content: [UInt8], _ library: LibraryContext) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.nonce, .hardwareKeyTag, .keyAttestation, .mtlsPublicKey]) else { throw .memberUnknown }
        for member in [RequestMember.nonce, .hardwareKeyTag, .keyAttestation] { _ = try body.required(member) }
        nonce = try body.nonce()
        keyID = try body.hardwareKeyID()
        tag = try body.text(.hardwareKeyTag)
        attestation = try body.bytes(.keyAttestation, 1...AttestationObject.lengthLimit)
        mtlsPublicKey = try Self.point(body, library)
    }

    private static func point(_ body: JSONObject, _ library: LibraryContext) throws(EnrolmentFault) -> [UInt8]? {
        guard body[RequestMember.mtlsPublicKey.rawValue] != nil else { return nil }
        let point = try body.bytes(.mtlsPublicKey, 65...65)
        guard (try? P256VerificationKey(point: point.span, library)) != nil else { throw .valueFormat(.mtlsPublicKey) }
        return point
    }

    /// Returns the input of `AttestationVerifier`. Its verdict covers the nonce only if the attestation's app is
    /// configured for this form.
    public func evidence(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> AttestationEvidence {
        let hash = try clientDataHash(form, library)
        return AttestationEvidence(attestation: attestation, clientDataHash: hash.bytes, keyID: keyID)
    }
}

/// The form of an app's argument to `attestKey(_:clientDataHash:)` at initialization, configured for each app.
public enum ClientDataFormat: String, Sendable, CaseIterable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)), as in deployed wallets.
    case nonce
    /// gematik's form: SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of `keypair_mTLS`)). The nonce
    /// bytes are the decoded nonce. The attestation is also for that key, which must be bound first.
    case dsr
}

extension InstanceInitialization {
    /// Returns the expected client data hash of the attestation.
    ///
    /// - Throws: `memberMissing` if `mtls_public_key` is missing in the form `dsr`. `memberUnknown` if it is sent in
    ///   another form, which would not cover it.
    public func clientDataHash(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> Digest256 {
        switch (form, mtlsPublicKey) {
        case (.nonceAndTag, nil): return try library.digest(of: nonce.text, tag)
        case (.nonce, nil): return try library.digest(of: nonce.text)
        case (.dsr, let point?):
            let integrity = try library.digest(of: nonce.bytes, Array("INTEGRITY".utf8))
            let key = try library.digest(of: point)
            return try library.digest(of: integrity.bytes, key.bytes)
        case (.dsr, nil): throw .memberMissing(.mtlsPublicKey)
        case (.nonceAndTag, _?), (.nonce, _?): throw .memberUnknown
        }
    }
}
