internal import COpenSSL
public import Cryptography
internal import Glibc

/// The verification of a client certificate during the handshake.
///
/// OpenSSL builds the chain to a configured authority, and checks validity, signatures and critical extensions. Beyond
/// that, the leaf must be no authority, every key of the chain must be one of the listener's `ClientKeys`, and every
/// signature needs SHA-256 or more. Extended key usage must include clientAuth, and may be absent only where the
/// listener says so. Last come the listener's objections to valid certificates (`ClientAdmission`).
///
/// Self-signed certificates are a separate kind on listeners that accept them, and `SelfSignedCertificate` verifies
/// them. No certificate is of both kinds: one that chains to a configured authority, or is one, is verified as issued.
enum ClientCertificateVerifier {
    /// OpenSSL's level of 112 bits. `ClientKeys` decides what is accepted above it.
    private static let securityLevel: Int32 = 2

    /// Verifies the certificate of a handshake.
    ///
    /// - Parameter context: with the store of the trust.
    /// - Returns: the identity and whether its chain was known, or the fault. After a fault, the context holds the
    ///   error whose alert fits.
    static func verify(
        _ context: OpaquePointer, by trust: ClientTrust
    ) -> Result<(identity: ClientIdentity, isKnown: Bool), ClientCertificateFault> {
        let (admission, chains, library) = (trust.admission, trust.chains, trust.library)
        guard let pointer = X509_STORE_CTX_get0_cert(context) else { return .failure(refuse(context, .missing)) }
        let leaf = Certificate(sharing: pointer)
        // Without a digest, the certificate is verified but not remembered.
        let digest = (try? leaf.digest(library)).map(LeafDigest.init)
        if let digest, let known = chains.find(digest), admission.objection(to: known, at: Int64(time(nil))) == nil {
            X509_STORE_CTX_set_error(context, X509_V_OK)
            return .success((known, isKnown: true))
        }
        switch verify(leaf, context, admitting: admission, encoding: trust.encoder, library) {
        case .success(let identity):
            if let digest { chains.insert(digest, identity) }
            // OpenSSL would keep it, decoded, for the lifetime of the connection.
            X509_STORE_CTX_set0_verified_chain(context, nil)
            return .success((identity, isKnown: false))
        case .failure(let fault): return .failure(refuse(context, fault))
        }
    }

    private static func verify(
        _ leaf: Certificate, _ context: OpaquePointer, admitting admission: ClientAdmission,
        encoding encoder: CertificateEncoder, _ library: LibraryContext
    ) -> Result<ClientIdentity, ClientCertificateFault> {
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context), securityLevel)
        let accepted = X509_verify_cert(context) == 1
        let verdict: Result<ClientIdentity, ClientCertificateFault>
        if accepted {
            verdict = identity(of: leaf, context, admission, encoding: encoder, library)
        } else if admission.selfSigned, let judged = SelfSignedCertificate(leaf)?.identity(encoding: encoder, library) {
            verdict = judged
        } else {
            let error = X509_STORE_CTX_get_error(context)
            verdict = .failure(
                fault(of: leaf, .init(verifyError: error), reason(of: error, context), library))
        }
        return verdict.flatMap { identity in
            guard let objection = admission.objection(to: identity, at: Int64(time(nil))) else {
                return .success(identity)
            }
            return .failure(fault(of: leaf, objection.kind, objection.reason, library))
        }
    }

    private static func refuse(_ context: OpaquePointer, _ fault: ClientCertificateFault) -> ClientCertificateFault {
        X509_STORE_CTX_set_error(context, fault.kind.alertingVerifyError)
        return fault
    }

    private static func fault(
        of leaf: Certificate, _ kind: ClientCertificateFault.Kind, _ reason: String, _ library: LibraryContext
    ) -> ClientCertificateFault {
        ClientCertificateFault(kind: kind, certificate: PresentedCertificate(leaf, library), reason: reason)
    }

    /// Returns OpenSSL's message, with the place in the chain if it is not the leaf.
    private static func reason(of error: Int32, _ context: OpaquePointer) -> String {
        let text = String(cString: X509_verify_cert_error_string(Int(error)))
        let depth = X509_STORE_CTX_get_error_depth(context)
        return depth == 0 ? text : "\(text), \(depth) above it"
    }

    private static func identity(
        of leaf: Certificate, _ context: OpaquePointer, _ admission: ClientAdmission,
        encoding encoder: CertificateEncoder, _ library: LibraryContext
    ) -> Result<ClientIdentity, ClientCertificateFault> {
        let chain = chain(of: context)
        if let reason = unsuitability(of: leaf, admission.usage) ?? weakness(of: chain, admission.keys) {
            return .failure(fault(of: leaf, .unsuitable, reason, library))
        }
        let name = admission.names?.first { leaf.isNamed($0) }
        do throws(CryptographyError) {
            // A certificate with an unreadable time fails verification. If one did pass, its validity would not have
            // begun, or would be over.
            let identity = ClientIdentity(
                kind: .issued, keyID: try leaf.publicKey?.keyID(library), thumbprint: try leaf.thumbprint(library),
                notBefore: chain.map { $0.notBefore ?? .max }.max() ?? .max,
                notAfter: chain.map { $0.notAfter ?? 0 }.min() ?? 0, chain: try issued(chain, library), name: name,
                fields: try encoder.fields(of: chain))
            return .success(identity)
        } catch {
            return .failure(fault(of: leaf, .unsuitable, error.description, library))
        }
    }

    private static func unsuitability(of leaf: Certificate, _ usage: ClientAdmission.UsageDemand) -> String? {
        let flags = X509_get_extension_flags(leaf.pointer)
        // Without the extension, all bits of the usage are set.
        guard flags & UInt32(EXFLAG_XKUSAGE) != 0 || usage == .ifPresent,
            X509_get_extended_key_usage(leaf.pointer) & UInt32(XKU_SSL_CLIENT) != 0
        else { return "no extended key usage clientAuth" }
        // The flag too: for OpenSSL, a certificate whose key usage lacks keyCertSign is no authority, whatever else it
        // contains.
        guard flags & UInt32(EXFLAG_CA) == 0, X509_check_ca(leaf.pointer) == 0 else {
            return "the certificate belongs to a certification authority"
        }
        return nil
    }

    /// Returns the objection to the first key or signature of a chain that is not accepted.
    ///
    /// - Parameter chain: from the leaf to the trusted certificate, whose own signature proves nothing.
    private static func weakness(of chain: [Certificate], _ keys: ClientKeys) -> String? {
        for (depth, certificate) in chain.enumerated() {
            let whose = depth == 0 ? "the certificate" : "the authority \(certificate.subject)"
            if let objection = keys.objection(to: certificate) { return "\(whose) \(objection)" }
            guard depth == chain.count - 1 || certificate.isSignedWithSHA256OrMore else {
                return "\(whose) is signed with less than SHA-256"
            }
        }
        return nil
    }

    private static func issued(
        _ chain: [Certificate], _ library: LibraryContext
    ) throws(CryptographyError) -> [IssuedCertificate] {
        var issued: [IssuedCertificate] = []
        for (certificate, issuer) in zip(chain, chain.dropFirst()) {
            issued.append(try IssuedCertificate(certificate, issuer: issuer, library))
        }
        return issued
    }

    /// Returns the chain from the leaf to the trusted certificate.
    private static func chain(of context: OpaquePointer) -> [Certificate] {
        let chain = X509_STORE_CTX_get0_chain(context)
        return (0..<ag_sk_x509_num(chain)).compactMap { ag_sk_x509_value(chain, $0).map(Certificate.init(sharing:)) }
    }
}

/// The revocation lists of a listener, and the treatment of stale ones.
public struct RevocationCheck: Sendable {
    public enum Policy: Sendable {
        /// Every certificate below the trusted one needs a fresh list of its issuer.
        case requireFresh
        /// Existing lists count at any age.
        case acceptStale
    }

    private let lists: [AuthorityIdentity: SignedRevocationList]
    private let policy: Policy

    /// Creates a check.
    ///
    /// - Parameter lists: at most one list of each authority.
    public init(_ lists: [SignedRevocationList], _ policy: Policy) {
        self.lists = Dictionary(lists.map { ($0.authority, $0) }) { $0.thisUpdate >= $1.thisUpdate ? $0 : $1 }
        self.policy = policy
    }

    /// Returns why the first revoked certificate of a chain is revoked, or nil if none is. Lists count at any age: an
    /// entry of an old list is in the next one too, except for holds.
    ///
    /// - Parameter chain: the chain from the leaf up, without the trusted certificate. What is trusted by configuration
    ///   is not revoked.
    func reasonOfRevocation(_ chain: [IssuedCertificate]) -> String? {
        for (depth, certificate) in chain.enumerated() {
            guard let list = lists[certificate.issuer], let reason = list.reason(of: certificate) else { continue }
            let what = depth == 0 ? "revoked" : "an issuer in its chain is revoked"
            return "\(what) by the list of \(list.issuer): \(reason)"
        }
        return nil
    }

    /// Returns why the revocation of a chain is unknown, or nil if the lists are sufficient or not required.
    func reasonOfStaleness(_ chain: [IssuedCertificate], at now: Int64) -> String? {
        guard policy == .requireFresh else { return nil }
        // The issuer is unknown.
        guard !chain.isEmpty else { return "its issuer was not recorded" }
        for certificate in chain {
            guard let list = lists[certificate.issuer] else {
                return "there is no revocation list of an issuer in its chain"
            }
            guard list.isFresh(at: now) else {
                return "the revocation list of \(list.issuer) is stale or not yet valid"
            }
        }
        return nil
    }
}

/// A client certificate that its own key has signed. It is only the form in which TLS carries a key; the handshake proves
/// possession of that key. So the checks are of its form, and the key must be on P-256.
///
/// The key is checked before the signature. A sender chooses both, and verification with some keys costs a multiple of a
/// handshake: RSA with a public exponent as long as its modulus. Certificates of authorities have no such check, because
/// OpenSSL verifies a chain from the trusted certificate downwards: a key verifies only after a trusted one has signed it.
private struct SelfSignedCertificate {
    private let certificate: Certificate
    private let key: PublicKey

    /// The strength of ECDSA on P-256 with SHA-256.
    private static let signatureBits: Int32 = 128

    /// Creates a self-signed certificate. Returns nil if the certificate names another issuer than its subject, or has
    /// an unknown type of key. Then it belongs to an unknown authority.
    init?(_ certificate: Certificate) {
        guard certificate.isSelfIssued, let key = certificate.publicKey else { return nil }
        self.certificate = certificate
        self.key = key
    }

    /// Checks the certificate.
    ///
    /// - Returns: the identity, or the fault. Nil if another key signed the certificate: then an unknown authority did,
    ///   whatever name it has.
    func identity(
        encoding encoder: CertificateEncoder, _ library: LibraryContext
    ) -> Result<ClientIdentity, ClientCertificateFault>? {
        func refused(_ kind: ClientCertificateFault.Kind, _ reason: String) -> Result<
            ClientIdentity, ClientCertificateFault
        > {
            .failure(
                ClientCertificateFault(
                    kind: kind, certificate: PresentedCertificate(certificate, library), reason: reason))
        }
        guard key.isP256 else { return refused(.unsuitable, "the key is not on P-256") }
        guard isSignedByItsKey else { return nil }
        // Either comparison is 0 if the field is no valid time.
        guard X509_cmp_current_time(X509_get0_notBefore(certificate.pointer)) < 0,
            X509_cmp_current_time(X509_get0_notAfter(certificate.pointer)) > 0, let notAfter = certificate.notAfter,
            let notBefore = certificate.notBefore
        else { return refused(.outsideValidity, "it has expired, or is not valid yet") }
        if let reason = unsuitability { return refused(.unsuitable, reason) }
        do throws(CryptographyError) {
            guard let keyID = try key.keyID(library) else {
                return refused(.unsuitable, "the key is not on P-256")
            }
            return .success(
                ClientIdentity(
                    kind: .selfSigned, keyID: keyID, thumbprint: try certificate.thumbprint(library),
                    notBefore: notBefore, notAfter: notAfter, chain: [],
                    fields: try encoder.fields(of: [certificate])))
        } catch {
            return refused(.unsuitable, error.description)
        }
    }

    private var isSignedByItsKey: Bool {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return X509_verify(certificate.pointer, key.pointer) == 1
    }

    private var unsuitability: String? {
        let pointer = certificate.pointer
        // This call fills in the flags.
        let flags = X509_get_extension_flags(pointer)
        guard flags & UInt32(EXFLAG_INVALID) == 0 else { return "an extension is malformed" }
        guard flags & UInt32(EXFLAG_CRITICAL) == 0 else { return "it has an unknown critical extension" }
        guard flags & UInt32(EXFLAG_CA) == 0, !certificate.mayBeAuthority else {
            return "the certificate belongs to a certification authority"
        }
        // In the handshake, the key makes a signature (RFC 8446 section 4.4.2.4).
        guard flags & UInt32(EXFLAG_KUSAGE) == 0 || X509_get_key_usage(pointer) & UInt32(KU_DIGITAL_SIGNATURE) != 0
        else { return "the key usage lacks digitalSignature" }
        let purposes = X509_get_extended_key_usage(pointer)
        guard flags & UInt32(EXFLAG_XKUSAGE) == 0 || purposes & UInt32(XKU_SSL_CLIENT | XKU_ANYEKU) != 0 else {
            return "no extended key usage clientAuth"
        }
        var bits: Int32 = 0
        guard X509_get_signature_info(pointer, nil, nil, &bits, nil) == 1, bits >= Self.signatureBits else {
            return "the signature is weaker than P-256 with SHA-256"
        }
        return nil
    }
}
