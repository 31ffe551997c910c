public import Attestation
public import Cryptography
public import Vocabulary

/// The content of `POST /instance-initialization`: the right form, nothing verified.
public struct InstanceInitialization: Equatable, Sendable {
    public let nonce: IssuedNonce
    /// The hardware key's key id, which is what `hardware_key_tag` stands for.
    public let keyID: KeyID
    /// The attestation, CBOR.
    public let attestation: [UInt8]
    /// The uncompressed point of `keypair_mTLS`, 65 bytes on the curve; only in the form `dsr`.
    public let mtlsPublicKey: [UInt8]?
    /// `hardware_key_tag` as it came.
    let tag: [UInt8]

    /// - Parameter content: JSON, each member once: `nonce`, `hardware_key_tag`, `key_attestation`, and in the form `dsr`
    ///   `mtls_public_key`.
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

    /// What `AttestationVerifier` is asked about. The verdict is about the nonce only if the app it names is configured for
    /// this form.
    public func evidence(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> AttestationEvidence {
        let hash = try clientDataHash(form, library)
        return AttestationEvidence(attestation: attestation, clientDataHash: hash.bytes, keyID: keyID)
    }
}
