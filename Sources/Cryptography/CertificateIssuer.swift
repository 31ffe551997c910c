internal import COpenSSL
internal import Encoding
internal import Glibc
public import Vocabulary

/// A certification authority that can sign: its certificate and its private key.
public struct CertificateIssuer {
    public let certificate: Certificate
    let key: PrivateKey
    let context: LibraryContext

    /// Creates an issuer.
    ///
    /// - Throws: if the key does not match the certificate, or the certificate is not an authority's.
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

    /// Creates a self-signed authority.
    ///
    /// - Parameter purpose: `authority` or `rootAuthority`.
    public static func selfSigned(
        _ purpose: CertificateTemplate.Purpose = .authority, commonName: String, lifetime: Int64, key: PrivateKey,
        _ context: LibraryContext
    ) throws(CryptographyError) -> CertificateIssuer {
        let template = CertificateTemplate(purpose: purpose, commonName: commonName, lifetime: lifetime)
        let certificate = try sign(template, for: key.publicKey, issuer: nil, key: key, context)
        return try CertificateIssuer(certificate: certificate, key: key, context)
    }

    /// Creates a self-signed client certificate. TLS needs one to present a key that the server knows already.
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

extension CertificateSerial {
    /// Writes the number to an OpenSSL integer.
    ///
    /// - Returns: false if memory is exhausted.
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

/// The content of a certificate before it is signed.
public struct CertificateTemplate: Sendable {
    /// The purpose of the certificate. It determines basic constraints, key usage and extended key usage.
    public enum Purpose: Sendable {
        /// A certification authority that issues end-entity certificates only.
        case authority
        /// A certification authority for such authorities. At most one level is below it.
        case rootAuthority
        /// A TLS server with these DNS names or IP addresses.
        case server(names: [String])
        /// A TLS client: the certificate of a phone's `keypair_mTLS`.
        case client
        /// A TLS client with this DNS name: a proxy that states certificates of clients.
        case proxy(name: String)
        /// The TLS client of a registered device. A subject alternative name states the device:
        /// `urn:attestgate:device:<key id>`. The key id is that of the hardware key, in lower-case hexadecimal.
        case device(KeyID)
        /// A key described by private extensions of the issuer, as in the leaf certificates of App Attest. Not for TLS.
        case attestedKey([OwnExtension])
    }

    /// A non-critical extension that OpenSSL does not know.
    public struct OwnExtension: Sendable {
        /// The object identifier in dotted decimal.
        public let identifier: String
        /// The value in DER.
        public let value: [UInt8]

        public init(identifier: String, value: [UInt8]) {
            self.identifier = identifier
            self.value = value
        }
    }

    public var purpose: Purpose
    /// The subject's common name, at most 64 characters (X.520).
    public var commonName: String
    public var end: End
    /// The serial number. Nil for a random one.
    public var serial: CertificateSerial?

    /// The end of validity. Validity begins five minutes before issue, for clocks that are behind.
    public enum End: Sendable {
        /// The number of seconds after issue.
        case after(Int64)
        /// A time in seconds since 1970.
        case at(Int64)
    }

    /// Creates a template.
    ///
    /// - Parameter lifetime: The number of seconds from issue.
    public init(purpose: Purpose, commonName: String, lifetime: Int64) {
        self.init(purpose: purpose, commonName: commonName, end: .after(lifetime), serial: nil)
    }

    public init(purpose: Purpose, commonName: String, end: End, serial: CertificateSerial?) {
        self.purpose = purpose
        self.commonName = commonName
        self.end = end
        self.serial = serial
    }

    /// The extensions in OpenSSL's notation. The subject key identifier comes first, because the authority key
    /// identifier may refer to it.
    fileprivate var extensions: [(identifier: ExtensionIdentifier, value: String)] {
        switch purpose {
        case .authority:
            [
                (.subjectKeyIdentifier, "hash"),
                (.basicConstraints, "critical,CA:TRUE,pathlen:0"),
                (.keyUsage, "critical,keyCertSign,cRLSign"),
            ]
        case .rootAuthority:
            [
                (.subjectKeyIdentifier, "hash"),
                (.basicConstraints, "critical,CA:TRUE,pathlen:1"),
                (.keyUsage, "critical,keyCertSign,cRLSign"),
            ]
        case .server(let names):
            [
                (.subjectKeyIdentifier, "hash"),
                (.authorityKeyIdentifier, "keyid:always"),
                (.basicConstraints, "critical,CA:FALSE"),
                (.keyUsage, "critical,digitalSignature"),
                (.extendedKeyUsage, "serverAuth"),
                (
                    .subjectAlternativeName,
                    names.map { (Self.isAddress($0) ? "IP:" : "DNS:") + $0 }.joined(separator: ",")
                ),
            ]
        case .client:
            Self.clientExtensions
        case .proxy(let name):
            Self.clientExtensions + [(.subjectAlternativeName, "DNS:\(name)")]
        case .device(let keyID):
            // Hexadecimal contains no character that has a meaning in this notation.
            Self.clientExtensions + [(.subjectAlternativeName, "URI:urn:attestgate:device:\(keyID)")]
        case .attestedKey:
            [(.basicConstraints, "critical,CA:FALSE"), (.keyUsage, "critical,digitalSignature")]
        }
    }

    fileprivate var ownExtensions: [OwnExtension] {
        if case .attestedKey(let extensions) = purpose { extensions } else { [] }
    }

    private static let clientExtensions: [(identifier: ExtensionIdentifier, value: String)] = [
        (.subjectKeyIdentifier, "hash"),
        (.authorityKeyIdentifier, "keyid:always"),
        (.basicConstraints, "critical,CA:FALSE"),
        (.keyUsage, "critical,digitalSignature"),
        (.extendedKeyUsage, "clientAuth"),
    ]

    fileprivate enum ExtensionIdentifier {
        case subjectKeyIdentifier
        case authorityKeyIdentifier
        case basicConstraints
        case keyUsage
        case extendedKeyUsage
        case subjectAlternativeName
    }

    private static func isAddress(_ name: String) -> Bool {
        name.contains(":") || name.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) }
    }
}

/// The files of the authority that issues for phones, as plain bytes. Each thread creates its own issuer from them.
///
/// The caller reads the files and checks their permissions.
public struct AuthoritySource: Sendable {
    private let certificate: [UInt8]
    private let key: [UInt8]
    private let passphrase: Passphrase?

    /// The strength in bits that verification of client certificates demands of every key of a chain.
    private static let strength = 128

    /// Creates a source.
    ///
    /// - Parameters:
    ///   - certificate: PEM with the authority's certificate only.
    ///   - key: PEM, encrypted or not.
    ///   - passphrase: Nil if the key is not encrypted.
    public init(certificate: [UInt8], key: [UInt8], passphrase: Passphrase?) {
        self.certificate = certificate
        self.key = key
        self.passphrase = passphrase
    }

    /// Returns an issuer for one thread.
    ///
    /// The certificate must be an authority's that may sign certificates (RFC 5280 section 4.2.1.3). It needs a subject
    /// key identifier, to which certificates below it refer (section 4.2.1.2). Its key must be as strong as
    /// verification demands. The caller checks expiry.
    ///
    /// - Throws: if the key cannot be read or does not match, or the certificate does not meet these conditions.
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
