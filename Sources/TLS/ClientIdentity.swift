public import Vocabulary

/// What a connection knows of its client certificate. Immutable, so a resumed session shares it with the one that
/// verified the certificate, on whatever thread.
public final class ClientIdentity: Sendable {
    /// The key id of the certificate's key; nil if the key is not P-256.
    public let keyID: KeyID?
    /// SHA-256 of the certificate's DER encoding: `x5t#S256` (RFC 8705).
    public let thumbprint: [UInt8]
    /// The earliest end of validity in the chain, in seconds since 1970: the connection lives no longer.
    public let notAfter: Int64

    init(keyID: KeyID?, thumbprint: [UInt8], notAfter: Int64) {
        self.keyID = keyID
        self.thumbprint = thumbprint
        self.notAfter = notAfter
    }
}
