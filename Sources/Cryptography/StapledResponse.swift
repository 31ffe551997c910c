internal import COpenSSL

/// A verified OCSP response (RFC 6960) with status good, for stapling.
///
/// A plain value that all workers share.
public struct StapledResponse: Equatable, Sendable {
    /// The response in DER, as sent to clients.
    public let encoding: [UInt8]
    /// The certificate's subject in RFC 2253 form.
    public let subject: String
    /// The time of issue in seconds since 1970.
    public let thisUpdate: Int64
    /// The latest time of the next response, in seconds since 1970.
    public let nextUpdate: Int64

    /// Length limit in bytes. It has room for the certificate of the signer. Each handshake copies the response.
    public static let longest = 16 * 1024

    /// Returns whether the response is current at this time.
    public func isFresh(at now: Int64) -> Bool { thisUpdate <= now && now < nextUpdate }

    /// Parses and verifies a response in DER, as `openssl ocsp -respout` writes it.
    ///
    /// An expired response is accepted. Check `isFresh` before each use.
    ///
    /// - Parameters:
    ///   - chain: The certificate and those above it, including its issuer.
    ///   - now: The time in seconds since 1970.
    /// - Throws: if a client would not accept the response as proof that the certificate is good.
    public init(
        der: [UInt8], for chain: [Certificate], at now: Int64, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard der.count <= Self.longest else {
            throw CryptographyError(doing: "read an OCSP response of more than \(Self.longest) bytes")
        }
        guard let leaf = chain.first else { throw CryptographyError(doing: "read an OCSP response for no certificate") }
        guard let issuer = chain.dropFirst().first(where: { $0.hasIssued(leaf) }) else {
            throw CryptographyError(
                doing: "verify the OCSP response: the certificate that issued \(leaf.subject), \(leaf.issuer), "
                    + "does not follow it in the certificate file")
        }
        let response = try DecodedOCSPResponse(der)
        let single = try response.single(about: leaf, issuedBy: issuer)
        guard let thisUpdate = single.thisUpdate, let nextUpdate = single.nextUpdate, thisUpdate < nextUpdate else {
            throw CryptographyError(doing: "staple the OCSP response: it has no validity period")
        }
        // A responder's certificate may end soon after the response, and must be valid during the response's validity.
        try response.verify(signedFor: issuer, at: min(max(now, thisUpdate), nextUpdate - 1), library)
        switch single.state {
        case .good: break
        case .revoked:
            throw CryptographyError(doing: "staple the OCSP response: it says that \(leaf.subject) is revoked")
        case .unknown:
            throw CryptographyError(doing: "staple the OCSP response: its authority does not know \(leaf.subject)")
        }
        encoding = der
        subject = leaf.subject
        self.thisUpdate = thisUpdate
        self.nextUpdate = nextUpdate
    }
}

/// A decoded OCSP response whose signature was not verified yet.
private struct DecodedOCSPResponse: ~Copyable {
    /// OpenSSL's `OCSP_BASICRESP`.
    private let pointer: OpaquePointer

    /// The status of one certificate (RFC 6960 section 4.2.1).
    struct Single {
        enum State {
            case good
            case revoked
            case unknown
        }

        let state: State
        /// The time of issue in seconds since 1970. Nil if it is missing or unreadable.
        let thisUpdate: Int64?
        let nextUpdate: Int64?
    }

    init(_ der: [UInt8]) throws(CryptographyError) {
        ERR_clear_error()
        var consumed = 0
        let response = der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var next = bytes.baseAddress
            let response = d2i_OCSP_RESPONSE(nil, &next, bytes.count)
            if let start = bytes.baseAddress, let next { consumed = next - start }
            return response
        }
        guard let response else { throw .fromQueue(doing: "read the OCSP response: it must be DER") }
        defer { OCSP_RESPONSE_free(response) }
        guard consumed == der.count else {
            throw CryptographyError(doing: "read the OCSP response: bytes follow it")
        }
        let status = OCSP_response_status(response)
        guard status == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
            let name = OCSP_response_status_str(Int(status)).map { String(cString: $0) } ?? "\(status)"
            throw CryptographyError(doing: "use the OCSP response: it is an error response, \(name)")
        }
        guard let basic = OCSP_response_get1_basic(response) else { throw .fromQueue(doing: "read the OCSP response") }
        pointer = basic
    }

    deinit {
        OCSP_BASICRESP_free(pointer)
    }

    /// Returns the status of one certificate.
    ///
    /// - Throws: if the response has no status or several statuses for it.
    func single(about leaf: Certificate, issuedBy issuer: Certificate) throws(CryptographyError) -> Single {
        ERR_clear_error()
        let count = OCSP_resp_count(pointer)
        let singles = (0..<max(0, count)).compactMap { OCSP_resp_get0(pointer, $0) }
        let matching = singles.filter { Self.isAbout(leaf, issuer, $0) }
        guard let single = matching.first, matching.count == 1 else {
            throw CryptographyError(
                doing: matching.isEmpty
                    ? "use the OCSP response: it is not about \(leaf.subject), serial \(leaf.serial)"
                    : "use the OCSP response: it contains \(leaf.subject) more than once")
        }
        guard OCSP_SINGLERESP_get_ext_by_critical(single, 1, -1) < 0 else {
            throw CryptographyError(doing: "use the OCSP response: it has an unknown critical extension")
        }
        var thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        var nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
        let state: Single.State =
            switch OCSP_single_get0_status(single, nil, nil, &thisUpdate, &nextUpdate) {
            case V_OCSP_CERTSTATUS_GOOD: .good
            case V_OCSP_CERTSTATUS_REVOKED: .revoked
            default: .unknown
            }
        return Single(
            state: state, thisUpdate: thisUpdate.flatMap { Certificate.seconds($0) },
            nextUpdate: nextUpdate.flatMap { Certificate.seconds($0) })
    }

    /// Returns whether a status is about the certificate. It is identified by hashes with an algorithm of the
    /// responder's choice.
    private static func isAbout(_ leaf: Certificate, _ issuer: Certificate, _ single: OpaquePointer) -> Bool {
        guard let id = OCSP_SINGLERESP_get0_id(single) else { return false }
        var algorithm: OpaquePointer?
        guard OCSP_id_get0_info(nil, &algorithm, nil, nil, id) == 1,
            let digest = EVP_get_digestbyname(OBJ_nid2sn(OBJ_obj2nid(algorithm))),
            let own = OCSP_cert_to_id(digest, leaf.pointer, issuer.pointer)
        else { return false }
        defer { OCSP_CERTID_free(own) }
        return OCSP_id_cmp(own, id) == 0
    }

    /// Verifies the signature.
    ///
    /// - Throws: unless the issuer signed it, or a responder with an OCSPSigning certificate of the issuer (RFC 6960
    ///   section 4.2.2.2).
    func verify(
        signedFor issuer: Certificate, at now: Int64, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard OCSP_BASICRESP_get_ext_by_critical(pointer, 1, -1) < 0 else {
            throw CryptographyError(doing: "use the OCSP response: it has an unknown critical extension")
        }
        var algorithm: OpaquePointer?
        X509_ALGOR_get0(&algorithm, nil, nil, OCSP_resp_get0_tbs_sigalg(pointer))
        guard SignatureStrength.isSufficient(OBJ_obj2nid(algorithm)) else {
            throw CryptographyError(doing: "trust the OCSP response: its signature algorithm is weaker than SHA-256")
        }
        ERR_clear_error()
        guard let store = X509_STORE_new(), let known = ag_sk_x509_new() else {
            throw .fromQueue(doing: "create a certificate store")
        }
        defer {
            X509_STORE_free(store)
            ag_sk_x509_free(known)
        }
        // The path ends at the issuer, even if it is not a root. Clients verify the issuer by their own path.
        guard X509_STORE_add_cert(store, issuer.pointer) == 1, ag_sk_x509_push(known, issuer.pointer) > 0,
            X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN)) == 1
        else { throw .fromQueue(doing: "fill a certificate store") }
        // 112 bits allow RSA with 2048 bits, which many responders use.
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_get0_param(store), 2)
        X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store), Int(now))
        // Without explicit trust: a certificate's own trust settings authorize no responder.
        guard OCSP_basic_verify(pointer, known, store, UInt(OCSP_NOEXPLICIT)) == 1 else {
            throw .fromQueue(
                doing:
                    "trust the OCSP response: it is not signed by \(issuer.subject) or a responder that it has delegated"
            )
        }
    }
}
