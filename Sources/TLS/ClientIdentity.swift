internal import Cryptography
public import Vocabulary

/// What a connection knows of its client certificate. Immutable, so a resumed session shares it with the one that
/// verified the certificate, on whatever thread.
public final class ClientIdentity: Sendable {
    /// Who vouches for the key.
    public enum Kind: Sendable {
        /// One of the configured authorities.
        case issued
        /// Nobody: the certificate says only that its holder has the key. Whatever it may do is the registry's to say.
        case selfSigned
    }

    public let kind: Kind
    /// The key id of the certificate's key; nil if the key is not P-256, which that of a self-signed one always is.
    public let keyID: KeyID?
    /// SHA-256 of the certificate's DER encoding: `x5t#S256` (RFC 8705).
    public let thumbprint: [UInt8]
    /// The latest beginning of validity in the chain, in seconds since 1970: clocks are set back too.
    let notBefore: Int64
    /// The earliest end of validity in the chain, in seconds since 1970: the connection lives no longer.
    public let notAfter: Int64
    /// What revocation lists can speak of: the certificates from the leaf up, without the trusted one. Empty if self-signed.
    let chain: [IssuedCertificate]

    init(
        kind: Kind, keyID: KeyID?, thumbprint: [UInt8], notBefore: Int64, notAfter: Int64, chain: [IssuedCertificate]
    ) {
        self.kind = kind
        self.chain = chain
        self.keyID = keyID
        self.thumbprint = thumbprint
        self.notBefore = notBefore
        self.notAfter = notAfter
    }
}
