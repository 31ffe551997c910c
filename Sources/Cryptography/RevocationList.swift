internal import COpenSSL
public import Vocabulary

/// The content of a revocation list before it is signed (RFC 5280 section 5). Times are in seconds since 1970.
public struct RevocationList: Sendable {
    /// The list's number, greater than that of every earlier list of the authority (section 5.2.3).
    public var number: Int64
    public var thisUpdate: Int64
    /// The latest time of the next list.
    public var nextUpdate: Int64
    public var certificates: [RevokedCertificate]

    public init(number: Int64, thisUpdate: Int64, nextUpdate: Int64, certificates: [RevokedCertificate]) {
        self.number = number
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
        self.certificates = certificates
    }
}

extension CertificateIssuer {
    /// Signs a revocation list.
    ///
    /// - Returns: version 2 in PEM, with the authority's key identifier and the list's number.
    /// - Throws: also if the authority's key usage lacks cRLSign, because clients would refuse its list.
    public func sign(_ list: RevocationList) throws(CryptographyError) -> [UInt8] {
        guard certificate.keyUsage.contains(.listSigning) else {
            throw CryptographyError(
                doing: "sign a revocation list: the key usage of \(certificate.subject) lacks cRLSign")
        }
        ERR_clear_error()
        guard let pointer = X509_CRL_new_ex(context.pointer, nil) else {
            throw .fromQueue(doing: "create a revocation list")
        }
        defer { X509_CRL_free(pointer) }
        guard X509_CRL_set_version(pointer, 1) == 1,  // version 2 is encoded as 1
            X509_CRL_set_issuer_name(pointer, X509_get_subject_name(certificate.pointer)) == 1,
            Self.setTime(list.thisUpdate, { X509_CRL_set1_lastUpdate(pointer, $0) }),
            Self.setTime(list.nextUpdate, { X509_CRL_set1_nextUpdate(pointer, $0) }),
            list.certificates.allSatisfy({ Self.add($0, to: pointer) }),
            X509_CRL_sort(pointer) == 1,
            addKeyIdentifier(to: pointer),
            Self.add(number: list.number, to: pointer)
        else { throw .fromQueue(doing: "fill in the revocation list") }
        guard X509_CRL_sign(pointer, key.pointer, context.sha256) > 0 else {
            throw .fromQueue(doing: "sign the revocation list")
        }
        let target = MemoryBIO()
        guard PEM_write_bio_X509_CRL(target.pointer, pointer) == 1 else {
            throw .fromQueue(doing: "write the revocation list")
        }
        return target.bytes
    }

    private static func setTime(_ seconds: Int64, _ set: (UnsafeMutablePointer<ASN1_TIME>) -> Int32) -> Bool {
        guard let time = ASN1_TIME_set(nil, Int(seconds)) else { return false }
        defer { ASN1_STRING_free(time) }
        return set(time) == 1
    }

    private static func add(_ certificate: RevokedCertificate, to list: OpaquePointer) -> Bool {
        guard let entry = X509_REVOKED_new() else { return false }
        guard let serial = ASN1_INTEGER_new() else {
            X509_REVOKED_free(entry)
            return false
        }
        defer { ASN1_STRING_free(serial) }
        guard certificate.serial.write(to: serial), X509_REVOKED_set_serialNumber(entry, serial) == 1,
            setTime(certificate.revokedAt, { X509_REVOKED_set_revocationDate(entry, $0) }),
            set(certificate.reason, of: entry),
            // The list owns the entry from here on.
            X509_CRL_add0_revoked(list, entry) == 1
        else {
            X509_REVOKED_free(entry)
            return false
        }
        return true
    }

    private static func set(_ reason: RevocationReason, of entry: OpaquePointer) -> Bool {
        guard let code = ASN1_ENUMERATED_new() else { return false }
        defer { ASN1_STRING_free(code) }
        return ASN1_ENUMERATED_set(code, reason.code) == 1
            && X509_REVOKED_add1_ext_i2d(entry, NID_crl_reason, code, 0, 0) == 1
    }

    private func addKeyIdentifier(to list: OpaquePointer) -> Bool {
        var settings = X509V3_CTX()
        X509V3_set_ctx(&settings, certificate.pointer, nil, nil, list, 0)
        guard let made = X509V3_EXT_conf_nid(nil, &settings, NID_authority_key_identifier, "keyid:always") else {
            return false
        }
        defer { X509_EXTENSION_free(made) }
        return X509_CRL_add_ext(list, made, -1) == 1
    }

    private static func add(number: Int64, to list: OpaquePointer) -> Bool {
        guard let encoded = ASN1_INTEGER_new() else { return false }
        defer { ASN1_STRING_free(encoded) }
        return ASN1_INTEGER_set_int64(encoded, number) == 1
            && X509_CRL_add1_ext_i2d(list, NID_crl_number, encoded, 0, 0) == 1
    }
}

extension RevocationReason {
    fileprivate var code: Int {
        switch self {
        case .superseded: 4
        case .cessationOfOperation: 5
        case .certificateHold: 6
        }
    }
}

/// A revocation list whose signature was verified (RFC 5280 section 5).
///
/// It is a plain value that all workers share. OpenSSL's object would take locks and verify the signature in every
/// handshake, which hashes the whole list.
public final class SignedRevocationList: Sendable {
    public let authority: AuthorityIdentity
    /// The authority's name in RFC 2253 form.
    public let issuer: String
    /// The time of issue in seconds since 1970.
    public let thisUpdate: Int64
    /// The latest time of the next list, in seconds since 1970.
    public let nextUpdate: Int64
    /// The reason code of each serial number (RFC 5280 section 5.3.1).
    private let entries: [SerialOctets: UInt8]

    /// The number of revoked certificates.
    public var count: Int { entries.count }

    fileprivate init(
        authority: AuthorityIdentity, issuer: String, thisUpdate: Int64, nextUpdate: Int64,
        entries: [SerialOctets: UInt8]
    ) {
        self.authority = authority
        self.issuer = issuer
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
        self.entries = entries
    }

    /// Returns the revocation reason in RFC 5280's word, or nil if the certificate is not on the list.
    ///
    /// - Parameter certificate: A certificate that this list's authority issued.
    public func reason(of certificate: IssuedCertificate) -> String? {
        entries[certificate.serial].map { Self.names[Int($0)] ?? "unspecified" }
    }

    private static let names = [
        1: "keyCompromise", 2: "cACompromise", 3: "affiliationChanged", 4: "superseded", 5: "cessationOfOperation",
        6: "certificateHold", 9: "privilegeWithdrawn", 10: "aACompromise",
    ]

    /// Returns whether the list is current at this time.
    public func isFresh(at now: Int64) -> Bool { thisUpdate <= now && now < nextUpdate }
}

// MARK: - Reading

extension SignedRevocationList {
    /// Parses all lists of a file: one or more in PEM, or one in DER.
    ///
    /// A list must cover all certificates of its issuer. Delta, partial and indirect lists state in a critical
    /// extension that they do not.
    ///
    /// - Parameter authorities: The possible signers.
    /// - Throws: if there is no list, or one without a valid signature or with a critical extension.
    public static func all(
        in file: [UInt8], signedBy authorities: [Certificate], _ context: LibraryContext
    ) throws(CryptographyError) -> [SignedRevocationList] {
        let decoded = file.first == 0x30 ? [try decode(file, context)] : try decodePEM(file, context)
        var lists: [SignedRevocationList] = []
        for (index, list) in decoded.enumerated() {
            do throws(CryptographyError) { lists.append(try list.verified(by: authorities, context)) } catch {
                guard decoded.count > 1 else { throw error }
                throw CryptographyError(
                    doing: "read list \(index + 1) of the file: cannot \(error.doing)", reasons: error.reasons)
            }
        }
        return lists
    }

    private static func decode(
        _ der: [UInt8], _ context: LibraryContext
    ) throws(CryptographyError) -> DecodedRevocationList {
        ERR_clear_error()
        var slot = X509_CRL_new_ex(context.pointer, nil)
        let consumed = der.withUnsafeBufferPointer { bytes -> Int in
            var next = bytes.baseAddress
            guard let start = bytes.baseAddress, d2i_X509_CRL(&slot, &next, bytes.count) != nil, let next else {
                return -1
            }
            return next - start
        }
        // On failure OpenSSL has freed the list and set the slot to nil.
        guard let read = slot, consumed >= 0 else { throw .fromQueue(doing: "read the revocation list") }
        let list = DecodedRevocationList(owning: read)
        guard consumed == der.count else {
            throw CryptographyError(doing: "read the revocation list: bytes follow it")
        }
        return list
    }

    private static func decodePEM(
        _ pem: [UInt8], _ context: LibraryContext
    ) throws(CryptographyError) -> [DecodedRevocationList] {
        let source = MemoryBIO(reading: pem)
        var lists: [DecodedRevocationList] = []
        while true {
            ERR_clear_error()
            var slot = X509_CRL_new_ex(context.pointer, nil)
            guard PEM_read_bio_X509_CRL(source.pointer, &slot, { _, _, _, _ in 0 }, nil) != nil, let read = slot else {
                X509_CRL_free(slot)
                break
            }
            lists.append(DecodedRevocationList(owning: read))
        }
        let last = ERR_peek_last_error()
        let isEnd = ag_err_get_lib(last) == ERR_LIB_PEM && ag_err_get_reason(last) == PEM_R_NO_START_LINE
        guard isEnd, !lists.isEmpty else {
            if isEnd {
                ERR_clear_error()
                let hint = FileDiagnosis.hint(pem, context)
                throw CryptographyError(
                    doing: "find a revocation list: the file is not DER, and there is no BEGIN X509 CRL in it\(hint)")
            }
            throw .fromQueue(doing: "read revocation list \(lists.count + 1) of the PEM text")
        }
        ERR_clear_error()
        return lists
    }
}

/// A decoded list whose signature was not verified yet.
private final class DecodedRevocationList {
    private let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        X509_CRL_free(pointer)
    }

    func verified(
        by authorities: [Certificate], _ context: LibraryContext
    ) throws(CryptographyError) -> SignedRevocationList {
        let issuer = Certificate.text(of: X509_CRL_get_issuer(pointer))
        guard let authority = authorities.first(where: hasSigned) else {
            throw CryptographyError(
                doing:
                    "trust the revocation list of \(issuer): it is not signed by an authority with this name and cRLSign"
            )
        }
        try checkSignatureStrength(issuer)
        guard let thisUpdate = Certificate.seconds(X509_CRL_get0_lastUpdate(pointer)),
            let nextUpdate = Certificate.seconds(X509_CRL_get0_nextUpdate(pointer))
        else {
            throw CryptographyError(
                doing: "use the revocation list of \(issuer): it has no validity period")
        }
        guard !Self.hasCritical(X509_CRL_get0_extensions(pointer)) else {
            throw CryptographyError(
                doing:
                    "use the revocation list of \(issuer): a critical extension makes it a delta list, a partial list or unknown"
            )
        }
        return SignedRevocationList(
            authority: try AuthorityIdentity(authority, context), issuer: issuer, thisUpdate: thisUpdate,
            nextUpdate: nextUpdate, entries: try entries(issuer))
    }

    private func hasSigned(_ authority: Certificate) -> Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_NAME_cmp(X509_get_subject_name(authority.pointer), X509_CRL_get_issuer(pointer)) == 0
            // Without the extension, all bits are set.
            && X509_get_key_usage(authority.pointer) & UInt32(KU_CRL_SIGN) != 0
            && X509_CRL_verify(pointer, X509_get0_pubkey(authority.pointer)) == 1
    }

    /// Checks that the signature uses SHA-256 or better, as for certificates.
    private func checkSignatureStrength(_ issuer: String) throws(CryptographyError) {
        guard SignatureStrength.isSufficient(X509_CRL_get_signature_nid(pointer)) else {
            throw CryptographyError(
                doing: "trust the revocation list of \(issuer): its signature algorithm is weaker than SHA-256")
        }
    }

    private func entries(_ issuer: String) throws(CryptographyError) -> [SerialOctets: UInt8] {
        let revoked = X509_CRL_get_REVOKED(pointer)
        let count = ag_sk_x509_revoked_num(revoked)
        var entries: [SerialOctets: UInt8] = [:]
        entries.reserveCapacity(Int(max(0, count)))
        for index in 0..<max(0, count) {
            let entry = ag_sk_x509_revoked_value(revoked, index)
            guard !Self.hasCritical(X509_REVOKED_get0_extensions(entry)) else {
                throw CryptographyError(
                    doing:
                        "use the revocation list of \(issuer): an entry has a critical extension, such as another issuer"
                )
            }
            entries[SerialOctets(X509_REVOKED_get0_serialNumber(entry))] = Self.reason(of: entry)
        }
        return entries
    }

    /// Returns the reason code of an entry. A missing or malformed reason counts as 0, unspecified.
    private static func reason(of entry: OpaquePointer?) -> UInt8 {
        guard let data = X509_REVOKED_get_ext_d2i(entry, NID_crl_reason, nil, nil) else { return 0 }
        let code = data.assumingMemoryBound(to: ASN1_ENUMERATED.self)
        defer { ASN1_STRING_free(code) }
        return UInt8(exactly: ASN1_ENUMERATED_get(code)) ?? 0
    }

    private static func hasCritical(_ extensions: OpaquePointer?) -> Bool {
        let count = X509v3_get_ext_count(extensions)
        return (0..<max(0, count)).contains { X509_EXTENSION_get_critical(X509v3_get_ext(extensions, $0)) != 0 }
    }
}
