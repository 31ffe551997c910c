internal import COpenSSL
public import Vocabulary

/// What a revocation list is to say, before its authority signs it (RFC 5280 section 5). Times are in seconds since 1970.
public struct RevocationList: Sendable {
    /// Greater than that of every earlier list of the authority (section 5.2.3).
    public var number: Int64
    public var thisUpdate: Int64
    /// When there will be a later list at the latest.
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
    /// - Returns: version 2, with the authority's key identifier and the list's number, as PEM.
    /// - Throws: also if the authority's key usage lacks cRLSign: nobody would accept its list.
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
            // From here on the entry is the list's.
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
