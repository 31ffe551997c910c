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

/// What an app hands to `attestKey(_:clientDataHash:)` when it is initialized: configured for each app.
public enum ClientDataFormat: String, Sendable, CaseIterable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)), as deployed wallets do.
    case nonce
    /// SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of `keypair_mTLS`)), gematik's form: the attestation
    /// speaks for the key already, and the first binding must be of this key. Nonce bytes: the decoded nonce.
    case dsr
}

extension InstanceInitialization {
    /// What the attestation must have been made for.
    ///
    /// - Throws: `memberMissing` or `memberUnknown` if `mtls_public_key` is missing in the form `dsr`, or sent in another,
    ///   which would not speak for it.
    public func clientDataHash(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> Digest256 {
        switch (form, mtlsPublicKey) {
        case (.nonceAndTag, nil): return try hash(nonce.text, tag, library)
        case (.nonce, nil): return try hash(nonce.text, [], library)
        case (.dsr, let point?):
            let integrity = try hash(nonce.bytes, Array("INTEGRITY".utf8), library)
            let key = try hash(point, [], library)
            return try hash(integrity.bytes, key.bytes, library)
        case (.dsr, nil): throw .memberMissing(.mtlsPublicKey)
        case (.nonceAndTag, _?), (.nonce, _?): throw .memberUnknown
        }
    }

    private func hash(
        _ first: [UInt8], _ second: [UInt8], _ library: LibraryContext
    ) throws(EnrolmentFault) -> Digest256 {
        try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: first.span, second.span)
        }
    }
}
