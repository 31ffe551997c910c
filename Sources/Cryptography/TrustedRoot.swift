internal import COpenSSL

/// A root certificate and the verification of paths to it (RFC 5280 section 6). For formats that pin their root, such
/// as attestations and receipts.
///
/// It does not check times. The caller checks every certificate of the path at the time that matters. It does not check
/// purposes, because Apple's certificates use private ones.
///
/// It remembers a few verified intermediates, so that their P-384 signatures are verified only once. Each verification
/// takes half a millisecond with OpenSSL 3.0. Belongs to the thread of its library context.
public final class TrustedRoot {
    public let certificate: Certificate
    private let store: OpaquePointer
    private let library: LibraryContext
    private var proven: [Certificate] = []

    /// The strength that every certificate of a path needs: 128 bits, as of P-256, SHA-256 and RSA-3072.
    private static let securityLevel: Int32 = 3
    /// Limit of remembered intermediates. Apple has one for attestations and one for receipts, and replaces them at
    /// expiry.
    private static let provenLimit = 4
    /// Limit of certificates between leaf and root. Apple's paths have one.
    private static let depth: Int32 = 2

    /// Trusts a root.
    ///
    /// - Throws: if the certificate is not an authority's or has name constraints. Remembered intermediates would not
    ///   be checked against such constraints.
    public init(_ certificate: Certificate, _ library: LibraryContext) throws(CryptographyError) {
        guard certificate.isAuthority else {
            throw CryptographyError(doing: "trust \(certificate.subject): it is not a certification authority")
        }
        guard X509_get_ext_by_NID(certificate.pointer, NID_name_constraints, -1) < 0 else {
            throw CryptographyError(doing: "trust \(certificate.subject): it has name constraints")
        }
        ERR_clear_error()
        guard let store = X509_STORE_new() else { throw .fromQueue(doing: "create a certificate store") }
        guard X509_STORE_add_cert(store, certificate.pointer) == 1,
            // A certificate of the store ends the path, self-signed or not.
            X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_NO_CHECK_TIME)) == 1,
            X509_STORE_set_purpose(store, X509_PURPOSE_ANY) == 1
        else {
            X509_STORE_free(store)
            throw .fromQueue(doing: "fill a certificate store")
        }
        X509_STORE_set_depth(store, Self.depth)
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_get0_param(store), Self.securityLevel)
        self.store = store
        self.certificate = certificate
        self.library = library
    }

    deinit {
        X509_STORE_free(store)
    }

    /// Returns the intermediate with this encoding, a remembered one if possible.
    public func intermediate(der: Span<UInt8>) throws(CryptographyError) -> Certificate {
        for known in proven where known.isEncoded(as: der) { return known }
        return try Certificate(der: der, library)
    }

    /// Verifies the path from `leaf` over `intermediate` to the root.
    ///
    /// - Parameter intermediate: An authority, because OpenSSL builds no path over other certificates.
    /// - Returns: nil if the path is valid, or the reason of the refusal.
    public func refusal(of leaf: Certificate, over intermediate: Certificate) throws(CryptographyError) -> PathRefusal?
    {
        ERR_clear_error()
        guard let context = X509_STORE_CTX_new_ex(library.pointer, nil), let untrusted = ag_sk_x509_new() else {
            throw .fromQueue(doing: "prepare to verify a certificate")
        }
        defer {
            X509_STORE_CTX_free(context)
            ag_sk_x509_free(untrusted)
        }
        guard ag_sk_x509_push(untrusted, intermediate.pointer) > 0,
            X509_STORE_CTX_init(context, store, leaf.pointer, untrusted) == 1
        else { throw .fromQueue(doing: "prepare to verify a certificate") }
        if X509_verify_cert(context) == 1 {
            // OpenSSL also accepts a leaf that the root issued directly.
            guard X509_cmp(intermediate.pointer, certificate.pointer) != 0, passes(over: intermediate, context) else {
                return PathRefusal(reason: "the root issued it directly", subject: leaf.subject, depth: 0)
            }
            remember(intermediate)
            return nil
        }
        ERR_clear_error()
        let code = X509_STORE_CTX_get_error(context)
        guard code != X509_V_ERR_OUT_OF_MEM, code != X509_V_ERR_UNSPECIFIED else {
            throw CryptographyError(doing: "verify a certificate")
        }
        let subject = X509_STORE_CTX_get_current_cert(context).map { Certificate(sharing: $0).subject }
        return PathRefusal(
            reason: X509_verify_cert_error_string(Int(code)).map { String(cString: $0) } ?? "code \(code)",
            subject: subject ?? leaf.subject, depth: Int(X509_STORE_CTX_get_error_depth(context)))
    }

    private func passes(over intermediate: Certificate, _ context: OpaquePointer) -> Bool {
        let chain = X509_STORE_CTX_get0_chain(context)
        return ag_sk_x509_num(chain) > 1 && X509_cmp(ag_sk_x509_value(chain, 1), intermediate.pointer) == 0
    }

    private func remember(_ intermediate: Certificate) {
        guard proven.count < Self.provenLimit,
            !proven.contains(where: { X509_cmp($0.pointer, intermediate.pointer) == 0 })
        else { return }
        guard X509_STORE_add_cert(store, intermediate.pointer) == 1 else {
            ERR_clear_error()
            return
        }
        proven.append(intermediate)
    }
}

/// The reason why a path is invalid, in OpenSSL's words.
public struct PathRefusal: Equatable, Sendable {
    public let reason: String
    /// The subject of the failing certificate.
    public let subject: String
    /// The distance of the failing certificate from the leaf, whose depth is 0.
    public let depth: Int
}
