internal import COpenSSL

/// An X.509 certificate.
public final class Certificate {
    package let pointer: OpaquePointer

    /// Takes over one reference.
    package init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    /// Shares a certificate owned by somebody else.
    package init(sharing pointer: OpaquePointer) {
        X509_up_ref(pointer)
        self.pointer = pointer
    }

    deinit {
        X509_free(pointer)
    }

    /// Reads every certificate of a PEM file, in order.
    ///
    /// - Throws: if there is none, or one of them cannot be decoded: a file that is half read is a trap.
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
            if isEnd { throw CryptographyError(doing: "find a certificate: no BEGIN CERTIFICATE in the PEM text") }
            throw .fromQueue(doing: "read certificate \(certificates.count + 1) of the PEM text")
        }
        ERR_clear_error()
        return certificates
    }

    public func pem() throws(CryptographyError) -> [UInt8] {
        let target = MemoryBIO()
        ERR_clear_error()
        guard PEM_write_bio_X509(target.pointer, pointer) == 1 else { throw .fromQueue(doing: "write the certificate") }
        return target.bytes
    }

    /// SHA-256 of the DER encoding: `x5t#S256` (RFC 8705 section 3.1).
    public func thumbprint(_ context: LibraryContext) throws(CryptographyError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        ERR_clear_error()
        guard X509_digest(pointer, context.sha256, &digest, nil) == 1 else {
            throw .fromQueue(doing: "compute the certificate's thumbprint")
        }
        return digest
    }

    /// The key the certificate speaks for. Nil if OpenSSL knows no such kind of key.
    public var publicKey: PublicKey? {
        X509_get_pubkey(pointer).map { PublicKey(owning: $0) }
    }

    /// The end of validity, in seconds since 1970. Nil if the field is not a valid time.
    public var notAfter: Int64? {
        var time = tm()
        guard ASN1_TIME_to_tm(X509_get0_notAfter(pointer), &time) == 1 else { return nil }
        return Int64(timegm(&time))
    }

    /// Whether basic constraints make this a certification authority.
    public var isAuthority: Bool { X509_check_ca(pointer) == 1 }

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

    private static func text(of name: OpaquePointer?) -> String {
        let target = MemoryBIO()
        X509_NAME_print_ex(target.pointer, name, 0, ag_xn_flag_rfc2253())
        return String(decoding: target.bytes, as: UTF8.self)
    }
}
