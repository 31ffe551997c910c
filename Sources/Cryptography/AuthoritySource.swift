/// The certification authority that issues for phones, as it lies in files: plain bytes, from which each thread makes an
/// issuer of its own.
///
/// Reading the files, and finding out who else may, is the caller's.
public struct AuthoritySource: Sendable {
    private let certificate: [UInt8]
    private let key: [UInt8]
    private let passphrase: Passphrase?

    /// What verification of client certificates demands of every key of a chain, in bits.
    private static let strength = 128

    /// - Parameters:
    ///   - certificate: PEM, the authority's and no other.
    ///   - key: PEM, encrypted or not.
    ///   - passphrase: nil if the key is not encrypted.
    public init(certificate: [UInt8], key: [UInt8], passphrase: Passphrase?) {
        self.certificate = certificate
        self.key = key
        self.passphrase = passphrase
    }

    /// - Throws: if the key cannot be read, or is not the certificate's; or if the certificate is no authority's that may
    ///   sign certificates (RFC 5280 section 4.2.1.3), is weaker than what verification demands, or names no key
    ///   identifier, by which certificates below it are to refer to it (section 4.2.1.2). Expiry is the caller's to look at.
    public func issuer(_ library: LibraryContext) throws(CryptographyError) -> CertificateIssuer {
        let certificates = try Certificate.all(inPEM: certificate, library)
        guard let certificate = certificates.first, certificates.count == 1 else {
            throw CryptographyError(
                doing: "issue certificates: the authority's file has \(certificates.count) certificates instead of one")
        }
        let issuer = try CertificateIssuer(
            certificate: certificate, key: PrivateKey(pem: key, passphrase: passphrase, library), library)
        let subject = certificate.subject
        guard certificate.keyUsage.contains(.certificateSigning) else {
            throw CryptographyError(doing: "issue certificates: the key usage of \(subject) lacks keyCertSign")
        }
        guard certificate.hasSubjectKeyIdentifier else {
            throw CryptographyError(doing: "issue certificates: \(subject) has no subject key identifier")
        }
        guard let key = certificate.publicKey, key.isElliptic || key.isRSA else {
            throw CryptographyError(doing: "issue certificates: the key of \(subject) is neither EC nor RSA")
        }
        guard key.securityBits >= Self.strength else {
            throw CryptographyError(
                doing: "issue certificates: the key of \(subject) has \(key.securityBits) bits of strength, not 128")
        }
        return issuer
    }
}

extension AuthoritySource: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "(certification authority)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
