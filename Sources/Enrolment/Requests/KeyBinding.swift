public import Attestation
public import Cryptography
public import Vocabulary

/// What a verified key-binding token says. Only `KeyBindingVerifier` makes one.
///
/// Still to be done: the nonce is ours, fresh and unused; the device exists and is not revoked; `verifyProof`; the counter
/// is unspent; no other device ever had the key.
public struct KeyBinding: Equatable, Sendable {
    public let nonce: IssuedNonce
    /// The device that binds, by its hardware key.
    public let hardwareKeyID: KeyID
    /// The uncompressed point of `keypair_mTLS`, the key that is bound: 65 bytes, on the curve.
    public let point: [UInt8]
    /// Its key id.
    public let keyID: KeyID
    /// Its JWK thumbprint with SHA-256 in base64url (RFC 7638).
    public let thumbprint: String
    /// The hardware key's assertion.
    public let proof: AssertionParts
    /// Who let the device in, where a token decides that and one was sent.
    public let admission: Admission?

    /// What the hardware key signs: these bytes, this order, no white space. Both values are base64url.
    public var clientData: [UInt8] {
        Array(#"{"nonce":""#.utf8) + nonce.text + Array(#"","jwk_thumbprint":""#.utf8) + Array(thumbprint.utf8)
            + Array(#""}"#.utf8)
    }

    /// Verifies that the hardware key speaks for this key and this nonce.
    ///
    /// - Parameters:
    ///   - key: the hardware key that is registered under `hardwareKeyID`.
    ///   - rpIDHash: the SHA-256 of the id of the device's app, 32 bytes.
    public func verifyProof(
        key: P256VerificationKey, rpIDHash: Span<UInt8>, _ library: LibraryContext
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        let clientData = clientData
        let hash = try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: clientData.span)
        }
        let assertion = proof.assertion
        do throws(AssertionFault) {
            return try AssertionVerifier.verify(
                assertion.span, clientDataHash: hash.span, key: key, rpIDHash: rpIDHash, digests: library)
        } catch {
            throw .assertion(error)
        }
    }
}
