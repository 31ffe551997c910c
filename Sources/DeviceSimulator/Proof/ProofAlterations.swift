/// What is to be wrong with a proof: each makes a gateway refuse for another reason. By default nothing is.
public struct ProofAlterations: Equatable, Sendable {
    /// What is broken after signing.
    public enum Corruption: String, CaseIterable, Sendable {
        /// One bit of the ECDSA signature.
        case signature
        /// The first byte of the assertion, so that it is no CBOR map any more.
        case assertion
        /// The last quote of Signature-Input is missing.
        case signatureInput = "signature-input"
    }

    // The proof is made for another request than the one that is sent.
    public var method: String?
    public var authority: String?
    public var path: String?
    /// Without its question mark.
    public var query: String?
    /// Other content, whose digest is signed and sent.
    public var content: [UInt8]?
    /// Signed and sent in place of the content's digest, whatever it is.
    public var contentDigest: String?

    /// Names of components that are not covered.
    public var omitted: [String] = []

    // Parameters. Texts are put between quotes as they are.
    /// Seconds added to `created`.
    public var createdOffset: Int64 = 0
    /// Seconds from `created`.
    public var expires: Int64?
    public var keyID: String?
    public var nonce: String?
    public var algorithm: String?
    public var tag: String?
    public var label: String?

    public var corruption: Corruption?

    public init() {}

    public var isNone: Bool { self == ProofAlterations() }
}
