internal import COpenSSL
internal import Glibc
public import Vocabulary

/// A certification authority that can sign: its certificate and its key.
public struct CertificateIssuer {
    public let certificate: Certificate
    let key: PrivateKey
    let context: LibraryContext

    /// - Throws: if the key is not the certificate's, or the certificate is no authority's.
    public init(certificate: Certificate, key: PrivateKey, _ context: LibraryContext) throws(CryptographyError) {
        ERR_clear_error()
        guard X509_check_private_key(certificate.pointer, key.pointer) == 1 else {
            throw .fromQueue(doing: "use the issuing key: it is not the certificate's")
        }
        guard certificate.isAuthority else {
            throw CryptographyError(
                doing: "issue certificates: \(certificate.subject) is not a certification authority")
        }
        self.certificate = certificate
        self.key = key
        self.context = context
    }

    /// Makes a new self-signed authority.
    ///
    /// - Parameter purpose: one of the two of authorities.
    public static func selfSigned(
        _ purpose: CertificateTemplate.Purpose = .authority, commonName: String, lifetime: Int64, key: PrivateKey,
        _ context: LibraryContext
    ) throws(CryptographyError) -> CertificateIssuer {
        let template = CertificateTemplate(purpose: purpose, commonName: commonName, lifetime: lifetime)
        let certificate = try sign(template, for: key.publicKey, issuer: nil, key: key, context)
        return try CertificateIssuer(certificate: certificate, key: key, context)
    }

    /// Makes a client certificate that nobody but its own key vouches for: the form in which TLS takes the key of a client
    /// that is known by it.
    public static func selfSignedClient(
        commonName: String, lifetime: Int64, key: PrivateKey, _ context: LibraryContext
    ) throws(CryptographyError) -> Certificate {
        let template = CertificateTemplate(purpose: .client, commonName: commonName, lifetime: lifetime)
        return try sign(template, for: key.publicKey, issuer: nil, key: key, context)
    }

    /// Issues a certificate for a public key.
    public func issue(_ template: CertificateTemplate, for key: PublicKey) throws(CryptographyError) -> Certificate {
        try Self.sign(template, for: key, issuer: certificate, key: self.key, context)
    }

    private static func sign(
        _ template: CertificateTemplate, for subjectKey: PublicKey, issuer: Certificate?, key: PrivateKey,
        _ context: LibraryContext
    ) throws(CryptographyError) -> Certificate {
        ERR_clear_error()
        guard let pointer = X509_new_ex(context.pointer, nil) else { throw .fromQueue(doing: "create a certificate") }
        let certificate = Certificate(owning: pointer)
        let serial: CertificateSerial
        if let chosen = template.serial { serial = chosen } else { serial = try context.randomSerial() }
        let now = time(nil)
        let end =
            switch template.end {
            case .after(let seconds): now + Int(seconds)
            case .at(let time): Int(time)
            }
        guard
            X509_set_version(pointer, 2) == 1,  // version 3 is encoded as 2
            serial.write(to: X509_get_serialNumber(pointer)),
            ASN1_TIME_set(X509_getm_notBefore(pointer), now - 300) != nil,
            ASN1_TIME_set(X509_getm_notAfter(pointer), end) != nil,
            X509_set_pubkey(pointer, subjectKey.pointer) == 1,
            X509_NAME_add_entry_by_txt(
                X509_get_subject_name(pointer), "CN", MBSTRING_UTF8, template.commonName, -1, -1, 0) == 1,
            X509_set_issuer_name(pointer, X509_get_subject_name(issuer?.pointer ?? pointer)) == 1
        else { throw .fromQueue(doing: "fill in the certificate") }
        for (identifier, value) in template.extensions {
            try add(identifier, value, to: pointer, issuer: issuer)
        }
        for own in template.ownExtensions { try add(own, to: pointer) }
        guard X509_sign(pointer, key.pointer, context.sha256) > 0 else {
            throw .fromQueue(doing: "sign the certificate")
        }
        return certificate
    }

    private static func add(
        _ identifier: CertificateTemplate.ExtensionIdentifier, _ value: String, to certificate: OpaquePointer,
        issuer: Certificate?
    ) throws(CryptographyError) {
        var settings = X509V3_CTX()
        X509V3_set_ctx(&settings, issuer?.pointer ?? certificate, certificate, nil, nil, 0)
        guard let made = X509V3_EXT_conf_nid(nil, &settings, identifier.nid, value) else {
            throw .fromQueue(doing: "make the extension \(identifier) = \(value)")
        }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(certificate, made, -1) == 1 else { throw .fromQueue(doing: "add an extension") }
    }

    private static func add(
        _ own: CertificateTemplate.OwnExtension, to certificate: OpaquePointer
    ) throws(CryptographyError) {
        let object = OBJ_txt2obj(own.identifier, 1)
        defer { ASN1_OBJECT_free(object) }
        let value = ASN1_OCTET_STRING_new()
        defer { ASN1_OCTET_STRING_free(value) }
        guard object != nil, value != nil, ASN1_OCTET_STRING_set(value, own.value, Int32(own.value.count)) == 1,
            let made = X509_EXTENSION_create_by_OBJ(nil, object, 0, value)
        else { throw .fromQueue(doing: "make the extension \(own.identifier)") }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(certificate, made, -1) == 1 else { throw .fromQueue(doing: "add an extension") }
    }
}

extension LibraryContext {
    /// A serial number nobody can predict, and nobody has had before.
    public func randomSerial() throws(CryptographyError) -> CertificateSerial {
        guard let serial = CertificateSerial(random: try randomBytes(16)) else {
            preconditionFailure("a serial number has 16 random bytes")
        }
        return serial
    }
}

extension CertificateSerial {
    /// - Returns: false without memory.
    func write(to field: UnsafeMutablePointer<ASN1_INTEGER>?) -> Bool {
        guard let number = BN_bin2bn(bytes, Int32(bytes.count), nil) else { return false }
        defer { BN_free(number) }
        return BN_to_ASN1_INTEGER(number, field) != nil
    }
}

extension CertificateTemplate.ExtensionIdentifier {
    fileprivate var nid: Int32 {
        switch self {
        case .subjectKeyIdentifier: NID_subject_key_identifier
        case .authorityKeyIdentifier: NID_authority_key_identifier
        case .basicConstraints: NID_basic_constraints
        case .keyUsage: NID_key_usage
        case .extendedKeyUsage: NID_ext_key_usage
        case .subjectAlternativeName: NID_subject_alt_name
        }
    }
}

extension Certificate {
    /// Whether this is the private key of the certificate.
    public func isCertificate(of key: PrivateKey) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_check_private_key(pointer, key.pointer) == 1
    }
}
