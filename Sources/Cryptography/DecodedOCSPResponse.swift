internal import COpenSSL

/// A successful OCSP response that nobody has vouched for yet.
struct DecodedOCSPResponse: ~Copyable {
    /// `OCSP_BASICRESP`.
    private let pointer: OpaquePointer

    /// What it says of one certificate (RFC 6960 section 4.2.1).
    struct Single {
        enum State {
            case good
            case revoked
            case unknown
        }

        let state: State
        /// In seconds since 1970, like `nextUpdate`. Nil if it says nothing readable.
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

    /// - Throws: if it says nothing of the certificate, or more than once.
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

    /// The response names certificates by hashes, of its own choice of algorithm.
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

    /// - Throws: unless the issuer has signed it, or a responder that the issuer authorised with an OCSPSigning
    ///   certificate (RFC 6960 section 4.2.2.2).
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
        // The issuer ends the path, be it a root or not: clients get to it by a path of their own.
        guard X509_STORE_add_cert(store, issuer.pointer) == 1, ag_sk_x509_push(known, issuer.pointer) > 0,
            X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN)) == 1
        else { throw .fromQueue(doing: "fill a certificate store") }
        // 112 bits: RSA with 2048, for many authorities appoint keys that are no longer.
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_get0_param(store), 2)
        X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store), Int(now))
        // No explicit trust: a certificate's own trust settings appoint nobody.
        guard OCSP_basic_verify(pointer, known, store, UInt(OCSP_NOEXPLICIT)) == 1 else {
            throw .fromQueue(
                doing:
                    "trust the OCSP response: it is not signed by \(issuer.subject) or a responder that it has delegated"
            )
        }
    }
}
