internal import COpenSSL

/// An X.509 certificate.
public final class Certificate {
    package let pointer: OpaquePointer

    /// Takes ownership of one reference.
    package init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    /// Retains a certificate that another object owns.
    package init(sharing pointer: OpaquePointer) {
        X509_up_ref(pointer)
        self.pointer = pointer
    }

    deinit {
        X509_free(pointer)
    }

    /// Parses one certificate from its DER encoding.
    ///
    /// - Throws: if the bytes are not exactly one certificate.
    public convenience init(der: Span<UInt8>, _ context: LibraryContext) throws(CryptographyError) {
        self.init(owning: try Self.decode(der, context))
    }

    private static func decode(_ der: Span<UInt8>, _ context: LibraryContext) throws(CryptographyError) -> OpaquePointer
    {
        ERR_clear_error()
        var slot = X509_new_ex(context.pointer, nil)
        let consumed = der.withUnsafeBufferPointer { bytes -> Int in
            var next = bytes.baseAddress
            guard let start = bytes.baseAddress, d2i_X509(&slot, &next, bytes.count) != nil, let next else { return -1 }
            return next - start
        }
        // On failure OpenSSL has freed the certificate and set the slot to nil.
        guard let read = slot, consumed >= 0 else { throw .fromQueue(doing: "read the certificate") }
        guard consumed == der.count else {
            X509_free(read)
            throw CryptographyError(doing: "read the certificate: bytes follow it")
        }
        return read
    }

    /// Parses all certificates of a PEM file, in order.
    ///
    /// - Throws: if the file has no certificate, or one that cannot be decoded.
    public static func all(inPEM pem: [UInt8], _ context: LibraryContext) throws(CryptographyError) -> [Certificate] {
        let source = MemoryBIO(reading: pem)
        var certificates: [Certificate] = []
        while true {
            ERR_clear_error()
            var slot = X509_new_ex(context.pointer, nil)
            guard PEM_read_bio_X509(source.pointer, &slot, { _, _, _, _ in 0 }, nil) != nil, let read = slot else {
                X509_free(slot)
                break
            }
            certificates.append(Certificate(owning: read))
        }
        let last = ERR_peek_last_error()
        let isEnd = ag_err_get_lib(last) == ERR_LIB_PEM && ag_err_get_reason(last) == PEM_R_NO_START_LINE
        guard isEnd, !certificates.isEmpty else {
            if isEnd {
                ERR_clear_error()
                let hint = FileDiagnosis.hint(pem, context)
                throw CryptographyError(doing: "find a certificate: no BEGIN CERTIFICATE in the PEM text\(hint)")
            }
            let error = CryptographyError.fromQueue(doing: "read certificate \(certificates.count + 1) of the PEM text")
            let hint = FileDiagnosis.cut(pem) + (certificates.isEmpty ? FileDiagnosis.mislabelled(pem, context) : "")
            throw hint.isEmpty ? error : CryptographyError(doing: error.doing + hint)
        }
        ERR_clear_error()
        return certificates
    }

    /// Returns whether clients accept the certificate for this host name (RFC 6125). Only subjectAltName counts.
    public func isGood(forHost name: String) -> Bool {
        X509_check_host(pointer, name, name.utf8.count, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT), nil) == 1
    }

    /// Returns whether subjectAltName contains exactly this DNS name. A wildcard names nobody.
    public func isNamed(_ name: String) -> Bool {
        let flags = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS
        return X509_check_host(pointer, name, name.utf8.count, UInt32(flags), nil) == 1
    }

    /// Whether clients accept the certificate for a server. Its key usages must allow that, or be absent (RFC 5280
    /// section 4.2.1.12).
    public var isGoodForServers: Bool { X509_check_purpose(pointer, X509_PURPOSE_SSL_SERVER, 0) == 1 }

    /// Whether an authority's key usages allow it to issue client certificates, or are absent.
    public var isGoodForClientAuthorities: Bool { X509_check_purpose(pointer, X509_PURPOSE_SSL_CLIENT, 1) == 1 }

    /// Whether it has a key usage that allows signatures other than those of certificates, and no critical extension is
    /// unknown (RFC 5280 section 4.2).
    public var isGoodForSignatures: Bool {
        let flags = X509_get_extension_flags(pointer)
        // Without the extension all bits of the usage are set.
        return flags & UInt32(EXFLAG_KUSAGE) != 0 && flags & UInt32(EXFLAG_CRITICAL | EXFLAG_INVALID) == 0
            && X509_get_key_usage(pointer) & UInt32(KU_DIGITAL_SIGNATURE) != 0
    }

    public func pem() throws(CryptographyError) -> [UInt8] {
        let target = MemoryBIO()
        ERR_clear_error()
        guard PEM_write_bio_X509(target.pointer, pointer) == 1 else { throw .fromQueue(doing: "write the certificate") }
        return target.bytes
    }

    /// Returns a copy of the DER encoding.
    public func der() throws(CryptographyError) -> [UInt8] {
        var encoding: UnsafeMutablePointer<UInt8>?
        ERR_clear_error()
        let count = i2d_X509(pointer, &encoding)
        defer { CRYPTO_free(encoding, #file, #line) }
        guard count > 0, let encoding else { throw .fromQueue(doing: "encode the certificate") }
        return Array(UnsafeBufferPointer(start: encoding, count: Int(count)))
    }

    /// Returns whether `der` is the DER encoding of this certificate. The signed part may be BER.
    package func isEncoded(as der: Span<UInt8>) -> Bool {
        var encoding: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(pointer, &encoding)
        defer { CRYPTO_free(encoding, #file, #line) }
        guard count > 0, let encoding else { return false }
        let bytes = UnsafeBufferPointer(start: encoding, count: Int(count))
        return ConstantTime.areEqual(bytes.span, der)
    }

    /// Returns SHA-256 of the DER encoding: `x5t#S256` (RFC 8705 section 3.1).
    public func thumbprint(_ context: LibraryContext) throws(CryptographyError) -> [UInt8] {
        try digest(context).bytes
    }

    /// Returns SHA-256 of the DER encoding, without an allocation.
    package func digest(_ context: LibraryContext) throws(CryptographyError) -> Digest256 {
        var digest = Digest256()
        ERR_clear_error()
        let pointer = pointer
        let algorithm = context.sha256
        guard digest.fill({ X509_digest(pointer, algorithm, $0, nil) }) == 1 else {
            throw .fromQueue(doing: "compute the certificate's thumbprint")
        }
        return digest
    }

    /// The certified key. Nil if OpenSSL does not support its kind.
    public var publicKey: PublicKey? {
        guard let key = X509_get_pubkey(pointer) else {
            ERR_clear_error()
            return nil
        }
        return PublicKey(owning: key)
    }

    /// The beginning of validity, in seconds since 1970. Nil if the field is not a valid time.
    public var notBefore: Int64? { Self.seconds(X509_get0_notBefore(pointer)) }

    /// The end of validity, in seconds since 1970. Nil if the field is not a valid time.
    public var notAfter: Int64? { Self.seconds(X509_get0_notAfter(pointer)) }

    static func seconds(_ field: UnsafePointer<ASN1_TIME>?) -> Int64? {
        var time = tm()
        guard ASN1_TIME_to_tm(field, &time) == 1 else { return nil }
        return Int64(timegm(&time))
    }

    /// Whether basic constraints and, if present, key usage make this a certification authority.
    public var isAuthority: Bool { X509_check_ca(pointer) == 1 }

    /// Whether any software may treat this certificate as an authority. Besides basic constraints that includes their
    /// predecessors: X.509 version 1, key usage and Netscape's certificate type.
    public var mayBeAuthority: Bool { X509_check_ca(pointer) != 0 }

    /// Returns the values of all extensions with this identifier, in order. A valid certificate has at most one.
    ///
    /// - Parameter identifier: A literal in dotted form.
    public func extensionValues(_ identifier: String) -> [[UInt8]] {
        guard let object = OBJ_txt2obj(identifier, 1) else { return [] }
        defer { ASN1_OBJECT_free(object) }
        var values: [[UInt8]] = []
        var index: Int32 = -1
        while true {
            index = X509_get_ext_by_OBJ(pointer, object, index)
            guard index >= 0, let value = X509_EXTENSION_get_data(X509_get_ext(pointer, index)) else { return values }
            let bytes = UnsafeBufferPointer(start: ASN1_STRING_get0_data(value), count: Int(ASN1_STRING_length(value)))
            values.append(Array(bytes))
        }
    }

    /// Returns whether there is an extension with this identifier, or with one below it.
    ///
    /// - Parameter identifier: In dotted form.
    public func hasExtension(below identifier: String) -> Bool {
        (0..<X509_get_ext_count(pointer)).contains { index in
            let found = ObjectIdentifierText.of(X509_EXTENSION_get_object(X509_get_ext(pointer, index)))
            return found == identifier || found.hasPrefix(identifier + ".")
        }
    }

    /// Returns the subject's values of an attribute, in order, as UTF-8.
    ///
    /// - Parameter attribute: The identifier in dotted form, as 2.5.4.3 for the common name.
    public func subjectValues(_ attribute: String) -> [[UInt8]] {
        guard let object = OBJ_txt2obj(attribute, 1) else { return [] }
        defer { ASN1_OBJECT_free(object) }
        let name = X509_get_subject_name(pointer)
        var values: [[UInt8]] = []
        var index: Int32 = -1
        while true {
            index = X509_NAME_get_index_by_OBJ(name, object, index)
            guard index >= 0 else { return values }
            var text: UnsafeMutablePointer<UInt8>?
            let entry = X509_NAME_get_entry(name, index)
            let count = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry))
            guard count >= 0, let text else {
                ERR_clear_error()
                continue
            }
            values.append(Array(UnsafeBufferPointer(start: text, count: Int(count))))
            CRYPTO_free(text, #file, #line)
        }
    }

    /// The name of the key's algorithm for people, with the curve or the size. Also of keys that OpenSSL cannot decode.
    public var keyAlgorithm: String {
        var object: OpaquePointer?
        X509_PUBKEY_get0_param(&object, nil, nil, nil, X509_get_X509_PUBKEY(pointer))
        let identifier = ObjectIdentifierText.of(object)
        switch identifier {
        case "1.2.840.10045.2.1": return publicKey?.curveName.map { "EC \($0)" } ?? "EC"
        case "1.2.840.113549.1.1.1":
            if case .rsa(let bits)? = publicKey?.kind { return "RSA-\(bits)" }
            return "RSA"
        case "2.16.840.1.101.3.4.3.17": return "ML-DSA-44"
        case "2.16.840.1.101.3.4.3.18": return "ML-DSA-65"
        case "2.16.840.1.101.3.4.3.19": return "ML-DSA-87"
        default:
            let kind = OBJ_obj2nid(object)
            return kind == NID_undef ? identifier : String(cString: OBJ_nid2sn(kind))
        }
    }

    /// Returns SHA-256 of the SubjectPublicKeyInfo in DER.
    public func keyDigest(_ context: LibraryContext) throws(CryptographyError) -> Digest256 {
        var encoding: UnsafeMutablePointer<UInt8>?
        ERR_clear_error()
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(pointer), &encoding)
        defer { CRYPTO_free(encoding, #file, #line) }
        guard count > 0, let encoding else { throw .fromQueue(doing: "encode the certificate's key") }
        return try context.sha256(of: UnsafeBufferPointer(start: encoding, count: Int(count)).span)
    }

    /// Returns whether a key made the certificate's signature, by ECDSA or RSA (PKCS#1 version 1.5) with SHA-256 or
    /// stronger. RSA keys have 2048 bits at least, and curves the strength of P-256.
    public func isSigned(by key: PublicKey) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        var scheme: Int32 = 0
        guard isSignedWithSHA256OrMore, X509_get_signature_info(pointer, nil, &scheme, nil, nil) == 1 else {
            return false
        }
        switch key.kind {
        case .rsa(let bits): guard scheme == EVP_PKEY_RSA, bits >= 2048 else { return false }
        default: guard scheme == EVP_PKEY_EC, key.isElliptic, key.securityBits >= 128 else { return false }
        }
        return X509_verify(pointer, key.pointer) == 1
    }

    /// Returns whether this certificate's subject is the issuer that `other` names.
    public func isNamedIssuer(of other: Certificate) -> Bool {
        X509_NAME_cmp(X509_get_subject_name(pointer), X509_get_issuer_name(other.pointer)) == 0
    }

    /// The subject in RFC 2253 form, escaped, for logs and diagnostics.
    public var subject: String { Self.text(of: X509_get_subject_name(pointer)) }
    public var issuer: String { Self.text(of: X509_get_issuer_name(pointer)) }

    /// The serial number in upper-case hexadecimal, as OpenSSL's tools print it.
    public var serial: String {
        guard let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(pointer), nil) else { return "" }
        defer { BN_free(number) }
        guard let text = BN_bn2hex(number) else { return "" }
        defer { CRYPTO_free(text, #file, #line) }
        return String(cString: text)
    }

    /// The serial number in decimal. Empty if it cannot be read.
    public var decimalSerial: String {
        guard let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(pointer), nil) else { return "" }
        defer { BN_free(number) }
        guard let text = BN_bn2dec(number) else { return "" }
        defer { CRYPTO_free(text, #file, #line) }
        return String(cString: text)
    }

    static func text(of name: OpaquePointer?) -> String {
        let target = MemoryBIO()
        X509_NAME_print_ex(target.pointer, name, 0, ag_xn_flag_rfc2253())
        return String(decoding: target.bytes, as: UTF8.self)
    }

    /// The key usage extension. Empty if absent, because issuers of certificates or revocation lists must have it.
    var keyUsage: KeyUsage {
        guard X509_get_ext_by_NID(pointer, NID_key_usage, -1) >= 0 else { return [] }
        return KeyUsage(rawValue: X509_get_key_usage(pointer))
    }

    var hasSubjectKeyIdentifier: Bool { X509_get0_subject_key_id(pointer) != nil }

    /// Whether the certificate's signature uses SHA-256 or better.
    public var isSignedWithSHA256OrMore: Bool {
        var bits: Int32 = 0
        // Also handles RSASSA-PSS. 128 bits is the collision resistance of SHA-256.
        return X509_get_signature_info(pointer, nil, nil, &bits, nil) == 1 && bits >= 128
    }

    /// Whether subject and issuer are equal, as in roots.
    public var isSelfIssued: Bool { isNamedIssuer(of: self) }

    /// Returns the identity of the authority that this certificate describes.
    public func authorityIdentity(_ context: LibraryContext) throws(CryptographyError) -> AuthorityIdentity {
        try AuthorityIdentity(self, context)
    }

    /// Returns whether this certificate issued `other`: its key signed it and its name is the issuer.
    func hasIssued(_ other: Certificate) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_check_issued(pointer, other.pointer) == X509_V_OK
            && X509_verify(other.pointer, X509_get0_pubkey(pointer)) == 1
    }

    /// Whether the certificate requires a stapled response: the TLS feature status_request, 5 (RFC 7633, RFC 6066
    /// section 8).
    public var demandsStaple: Bool {
        // A sequence of small integers of three octets each.
        extensionValues("1.3.6.1.5.5.7.1.24").contains { value in
            value.first == 0x30
                && stride(from: 2, to: value.count - 2, by: 3).contains { value[$0...].starts(with: [2, 1, 5]) }
        }
    }

    /// Returns whether two certificates are of the same key.
    public func hasKey(of other: Certificate) -> Bool {
        guard
            let (own, its) = X509_get0_pubkey(pointer).flatMap({ own in
                X509_get0_pubkey(other.pointer).map { (own, $0) }
            })
        else { return false }
        ERR_clear_error()
        defer { ERR_clear_error() }
        return EVP_PKEY_eq(own, its) == 1
    }

    /// Returns whether the key of `other` made this certificate's signature, by whatever algorithm.
    public func isIssued(byKeyOf other: Certificate) -> Bool {
        guard let key = X509_get0_pubkey(other.pointer) else { return false }
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_verify(pointer, key) == 1
    }

    /// Returns whether `key` is the private key of this certificate.
    public func isCertificate(of key: PrivateKey) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_check_private_key(pointer, key.pointer) == 1
    }
}

/// The dotted form of object identifiers.
enum ObjectIdentifierText {
    static func of(_ object: OpaquePointer?) -> String {
        var text = [CChar](repeating: 0, count: 128)
        let length = OBJ_obj2txt(&text, Int32(text.count), object, 1)
        return length > 0 && length < text.count
            ? String(decoding: text[..<Int(length)].map(UInt8.init(bitPattern:)), as: UTF8.self) : ""
    }
}

/// The key usages that matter here (RFC 5280 section 4.2.1.3).
struct KeyUsage: OptionSet {
    let rawValue: UInt32

    static let certificateSigning = KeyUsage(rawValue: UInt32(KU_KEY_CERT_SIGN))
    static let listSigning = KeyUsage(rawValue: UInt32(KU_CRL_SIGN))
}

/// The minimum strength of an authority's signatures: SHA-256.
enum SignatureStrength {
    /// Returns whether a signature algorithm uses SHA-256 or better. RSASSA-PSS states its digest elsewhere and counts
    /// as weak here.
    ///
    /// - Parameter algorithm: The NID of an algorithm such as sha256WithRSAEncryption.
    static func isSufficient(_ algorithm: Int32) -> Bool {
        guard algorithm != NID_ED25519, algorithm != NID_ED448 else { return true }
        var digest: Int32 = NID_undef
        guard OBJ_find_sigid_algs(algorithm, &digest, nil) == 1, let known = EVP_get_digestbyname(OBJ_nid2sn(digest))
        else { return false }
        return EVP_MD_get_size(known) >= 32
    }
}

/// The identity of an authority: SHA-256 of its name and SHA-256 of its key. Both must match, so an authority that was
/// renamed or has a new key is another authority.
public struct AuthorityIdentity: Hashable, Sendable {
    /// SHA-256 of the name, then of the key.
    package let octets: [UInt8]

    package init?(octets: [UInt8]) {
        guard octets.count == 64 else { return nil }
        self.octets = octets
    }

    init(_ certificate: Certificate, _ context: LibraryContext) throws(CryptographyError) {
        var name = [UInt8](repeating: 0, count: 32)
        var key = name
        ERR_clear_error()
        guard X509_NAME_digest(X509_get_subject_name(certificate.pointer), context.sha256, &name, nil) == 1,
            X509_pubkey_digest(certificate.pointer, context.sha256, &key, nil) == 1
        else { throw .fromQueue(doing: "identify the authority") }
        octets = name + key
    }
}

/// The identity of a certificate in a revocation list: its issuer and its serial number.
public struct IssuedCertificate: Sendable {
    public let issuer: AuthorityIdentity
    let serial: SerialOctets

    /// Identifies a certificate.
    ///
    /// - Parameter issuer: The authority whose signature on the certificate was verified.
    public init(
        _ certificate: Certificate, issuer: Certificate, _ context: LibraryContext
    ) throws(CryptographyError) {
        self.issuer = try AuthorityIdentity(issuer, context)
        serial = SerialOctets(X509_get0_serialNumber(certificate.pointer))
    }

    package init(issuer: AuthorityIdentity, serialOctets: [UInt8]) {
        self.issuer = issuer
        serial = SerialOctets(serialOctets)
    }

    /// The magnitude of the serial number.
    package var serialOctets: [UInt8] { serial.octets }
}

/// A serial number of any authority, even a malformed one: the octets of its magnitude. The sign is dropped, because
/// RFC 5280 section 4.1.2.2 forbids it. A list that names 5 also revokes -5.
struct SerialOctets: Hashable, Sendable {
    let octets: [UInt8]

    init(_ octets: [UInt8]) { self.octets = octets }

    init(_ field: UnsafePointer<ASN1_INTEGER>?) {
        octets = Array(
            UnsafeBufferPointer(start: ASN1_STRING_get0_data(field), count: Int(max(0, ASN1_STRING_length(field)))))
    }
}
