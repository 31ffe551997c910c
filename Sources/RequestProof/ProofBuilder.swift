public import Vocabulary

/// The client's side of a proof: what it is to sign, and the two fields that carry the result.
///
/// Make one from the request's components, hash `signatureBase`, have the device sign the hash, and send
/// `signatureInput` and `signature`.
public struct ProofBuilder: Sendable {
    /// The proof's components and parameters.
    public let input: SignatureInput

    /// - Parameters:
    ///   - components: what to cover, in this order; `Coverage.components` and whatever the challenge asks for.
    ///   - nonce: the challenge, as its `AcceptSignature` has it.
    ///   - created: now, in seconds since 1970.
    ///   - expires: seconds since 1970.
    /// - Throws: `malformed` of `signatureInput`, if a component occurs twice or a value is none that a proof can have.
    public init(
        components: [Component], keyID: KeyID, nonce: [UInt8], created: Int64, expires: Int64? = nil,
        algorithm: ProofAlgorithm? = .appleAttest
    ) throws(ProofFault) {
        input = try SignatureInput(
            components: components, created: created, expires: expires, keyID: keyID, nonce: nonce,
            algorithm: algorithm)
    }

    /// The value of Signature-Input: `attest=(...);created=...`.
    public var signatureInput: [UInt8] { ProofName.label + [FieldByte.equals] + input.signatureParameters }

    /// The bytes to sign: on iOS their SHA-256 is the client data hash.
    ///
    /// - Parameter fields: as `SignatureBase.build` has it.
    /// - Throws: `fieldAbsent`, or `malformed` of `request`.
    public func signatureBase(
        of request: borrowing RequestParts, fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) -> [UInt8] {
        var base = SignatureBase()
        try base.build(input, of: request, fields: fields)
        return base.bytes
    }

    /// The value of Signature: `attest=:...:`.
    ///
    /// - Parameter assertion: what the device returned, 1 to `ProofSignature.sizeLimit` bytes.
    /// - Throws: `malformed` of `signature`.
    public func signature(assertion: [UInt8]) throws(ProofFault) -> [UInt8] {
        try ProofSignature(assertion: assertion).fieldValue
    }
}
