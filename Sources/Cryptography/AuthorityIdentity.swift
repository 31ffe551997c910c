internal import COpenSSL

/// Which authority has issued or signed something: its name and its key, as SHA-256 of each. Another authority with the same
/// name is another, and so is a renamed one with the same key.
public struct AuthorityIdentity: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ certificate: Certificate, _ context: LibraryContext) throws(CryptographyError) {
        var name = [UInt8](repeating: 0, count: 32)
        var key = name
        ERR_clear_error()
        guard X509_NAME_digest(X509_get_subject_name(certificate.pointer), context.sha256, &name, nil) == 1,
            X509_pubkey_digest(certificate.pointer, context.sha256, &key, nil) == 1
        else { throw .fromQueue(doing: "identify the authority") }
        bytes = name + key
    }
}

extension Certificate {
    /// As an authority.
    public func authorityIdentity(_ context: LibraryContext) throws(CryptographyError) -> AuthorityIdentity {
        try AuthorityIdentity(self, context)
    }
}

/// What a revocation list can speak of: who has issued a certificate, under which number.
public struct IssuedCertificate: Sendable {
    public let issuer: AuthorityIdentity
    let serial: SerialOctets

    /// - Parameter issuer: whose signature on the certificate was verified.
    public init(
        _ certificate: Certificate, issuer: Certificate, _ context: LibraryContext
    ) throws(CryptographyError) {
        self.issuer = try AuthorityIdentity(issuer, context)
        serial = SerialOctets(X509_get0_serialNumber(certificate.pointer))
    }
}

/// A serial number of any authority, well-formed or not: the octets of its magnitude. Without the sign, which RFC 5280 section
/// 4.1.2.2 forbids: a list that names 5 bars -5 too.
struct SerialOctets: Hashable, Sendable {
    private let octets: [UInt8]

    init(_ field: UnsafePointer<ASN1_INTEGER>?) {
        octets = Array(
            UnsafeBufferPointer(start: ASN1_STRING_get0_data(field), count: Int(max(0, ASN1_STRING_length(field)))))
    }
}
