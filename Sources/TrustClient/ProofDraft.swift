public import RequestProof
public import Vocabulary

/// A proof before its assertion: the synchronous core, for those who sign by themselves.
///
/// Have `clientDataHash` signed, and give the assertion to `fields(assertion:)`. One draft serves any number of
/// assertions: each has a counter of its own, and that makes the proofs different.
public struct ProofDraft: Sendable {
    /// Client data: the signature base (RFC 9421 section 2.5), byte for byte.
    public let signatureBase: [UInt8]
    /// SHA-256 of it: 32 bytes, for `generateAssertion(_:clientDataHash:)`.
    public let clientDataHash: [UInt8]
    private let signatureInput: [UInt8]
    private let contentDigest: [UInt8]?

    /// - Parameters:
    ///   - created: now, in seconds since 1970, by the gateway's clock as far as it is known.
    ///   - expires: when the proof is to end, in seconds since 1970.
    /// - Throws: `malformed` of `request`, if a component's value cannot be signed; of `signatureInput`, if a time is none.
    public init(
        _ request: AttestedRequest, answering challenge: ReceivedChallenge, keyID: KeyID, created: Int64,
        expires: Int64? = nil
    ) throws(ProofFault) {
        let builder = try ProofBuilder(
            components: request.components(asked: challenge.request.components), keyID: keyID,
            nonce: challenge.request.nonce, created: created, expires: expires)
        signatureBase = try request.signatureBase(builder)
        clientDataHash = ContentHash.sha256(signatureBase)
        signatureInput = builder.signatureInput
        contentDigest = request.contentDigest
    }

    /// - Parameter assertion: what the hardware key returned for `clientDataHash`.
    /// - Throws: `malformed` of `signature`, if it is empty or too large.
    public func fields(assertion: [UInt8]) throws(ProofFault) -> ProofFields {
        ProofFields(
            contentDigest: contentDigest, signatureInput: signatureInput,
            signature: try ProofSignature(assertion: assertion).fieldValue)
    }
}
