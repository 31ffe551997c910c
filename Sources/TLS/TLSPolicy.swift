internal import COpenSSL
internal import Cryptography

/// The TLS versions and algorithms offered to clients and services, by the names of Mozilla's recommendations: Server
/// Side TLS, version 5.7 (https://ssl-config.mozilla.org/guidelines/5.7.json). Comments name the places where this is
/// stricter.
public struct TLSPolicy: Equatable, Sendable {
    enum Version: Sendable {
        case tls12
        case tls13

        var number: Int32 { self == .tls12 ? TLS1_2_VERSION : TLS1_3_VERSION }
    }

    /// `tls_versions`: from this one to TLS 1.3.
    let oldest: Version

    /// Only TLS 1.3, which every phone with App Attest supports. It encrypts the client's certificate.
    public static let modern = TLSPolicy(oldest: .tls13)

    /// TLS 1.2 too, which shows the client's certificate to everybody on the path.
    public static let intermediate = TLSPolicy(oldest: .tls12)

    /// `ciphers` of intermediate, the best first, under OpenSSL's names. They are set in any case, so that no weaker
    /// cipher is available.
    ///
    /// All have forward secrecy and authenticated encryption. `DHE-*` is left out: no client that supports AES-GCM
    /// lacks ECDHE, and each such exchange costs the server a long exponentiation. Version 5.8 has removed them as
    /// well.
    private static let ciphers = [
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
    ]

    /// `ciphersuites` of TLS 1.3, the best first.
    private static let suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]

    /// `tls_curves` without P-384, for which OpenSSL 3 has no fast code: a client could make the server spend ten
    /// times as much on a handshake. Every client has one of these two (P-256 is mandatory: RFC 8446 section 9.1).
    /// `KeyExchange.offer` puts X25519MLKEM768 before them, which costs the server a third more than X25519: with
    /// OpenSSL 3.5 its ML-KEM takes 29 µs beside 81 µs.
    private static let groups = ["X25519", "P-256"]

    /// The server's signature algorithms, the best first: those of the keys that `checkServerCertificate` accepts, with
    /// SHA-256 or more. PKCS #1 v1.5 is only for TLS 1.2 (RFC 8446 section 4.2.3).
    private static let signatures = [
        "ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384",
        "rsa_pss_rsae_sha512", "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
    ]

    /// The groups offered to services. A service with only P-384 has chosen its cost.
    private static let clientGroups = groups + ["P-384"]

    /// The groups of TLS 1.2 for a client whose certificate has another curve: there it must be one of them (RFC 8422
    /// section 5.1). No key is exchanged on those that are added.
    static let certificateGroupList = list(groups + ["P-384", "P-521"])

    /// The signature algorithms of services and of their certificates: 128 bits, with SHA-256 or more.
    private static let serviceSignatures = [
        "ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512", "ed25519", "ed448",
        "rsa_pss_pss_sha256", "rsa_pss_pss_sha384", "rsa_pss_pss_sha512", "rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384",
        "rsa_pss_rsae_sha512", "rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512",
    ]

    /// OpenSSL's level of 112 bits, whatever its build: no SHA-1, no RSA below 2048 bits (`rsa_key_size`).
    private static let securityLevel: Int32 = 2

    /// Applies the policy to a server's context.
    ///
    /// - Parameters:
    ///   - context: a new `SSL_CTX` of a server.
    ///   - clients: the rules for clients, whose keys determine their signature algorithms.
    /// - Returns: the groups in OpenSSL's notation.
    func apply(to context: OpaquePointer, _ clients: ClientAdmission) throws(CryptographyError) -> String {
        // No tickets, unless `SessionTickets` permits one to a connection. No renegotiation, no compression. An end
        // without close_notify is an ordinary end, since HTTP's framing reveals a truncated request. The order of
        // ciphers is the server's, except for a client that prefers ChaCha20, since it lacks fast AES.
        SSL_CTX_set_options(context, ag_ssl_server_options())
        let groups = try offer(Self.groups, Self.signatures, in: context)
        let clientSignatures = clients.keys.signatures(selfSigned: clients.selfSigned)
        guard ag_ssl_ctx_set1_client_sigalgs_list(context, Self.list(clientSignatures)) == 1,
            // No 0-RTT: early data can be replayed (RFC 8446 section 8).
            SSL_CTX_set_max_early_data(context, 0) == 1
        else { throw .fromQueue(doing: "set the TLS policy") }
        return groups
    }

    /// Applies the policy to a client's context.
    ///
    /// - Parameter context: a new `SSL_CTX` of a client.
    func applyToClient(_ context: OpaquePointer) throws(CryptographyError) {
        // No renegotiation, no compression. Only OpenSSL takes an end without close_notify for an ordinary end, because
        // it would otherwise drop the session; `TLSStream` distinguishes them.
        SSL_CTX_set_options(context, ag_ssl_client_options())
        _ = try offer(Self.clientGroups, Self.serviceSignatures, in: context)
    }

    /// Applies the settings of both roles, each with its own groups and signatures.
    ///
    /// - Returns: the groups in OpenSSL's notation.
    private func offer(
        _ groups: [String], _ signatures: [String], in context: OpaquePointer
    ) throws(CryptographyError) -> String {
        guard let offered = KeyExchange.offer(groups, in: context) else {
            throw .fromQueue(doing: "set the groups of the TLS policy")
        }
        ERR_clear_error()
        SSL_CTX_set_security_level(context, Self.securityLevel)
        guard ag_ssl_ctx_set_min_proto_version(context, oldest.number) == 1,
            ag_ssl_ctx_set_max_proto_version(context, TLS1_3_VERSION) == 1,
            SSL_CTX_set_ciphersuites(context, Self.list(Self.suites)) == 1,
            SSL_CTX_set_cipher_list(context, Self.list(Self.ciphers)) == 1,
            ag_ssl_ctx_set1_sigalgs_list(context, Self.list(signatures)) == 1
        else { throw .fromQueue(doing: "set the TLS policy") }
        return offered
    }

    private static func list(_ names: [String]) -> String { names.joined(separator: ":") }
}

extension TLSPolicy {
    /// Refuses a server certificate that no client should receive under any policy: a key that Mozilla's guidelines
    /// exclude (`certificate_types`, `certificate_curves`, `rsa_key_size`), or a weak signature.
    ///
    /// - Parameter chain: the server's certificate, then those above it.
    static func checkServerCertificate(_ chain: [Certificate]) throws(CryptographyError) {
        guard let leaf = chain.first else { throw CryptographyError(doing: "use an empty server certificate chain") }
        switch leaf.publicKey?.kind {
        case .p256, .p384: break
        case .rsa(let bits):
            guard bits >= 2048 else { throw refusal(leaf, "its RSA key has \(bits) bits, at least 2048 are required") }
        case .p521, .ed25519, .other, nil:
            throw refusal(leaf, "its key is neither RSA nor on P-256 or P-384, so many clients could not connect")
        }
        for (depth, certificate) in chain.enumerated() {
            // A root's signature proves nothing, so nobody verifies it.
            guard depth == 0 || !certificate.isSelfIssued else { continue }
            guard certificate.isSignedWithSHA256OrMore else {
                throw refusal(certificate, "its signature algorithm is weaker than SHA-256")
            }
            guard (certificate.publicKey?.securityBits ?? 0) >= 112 else {
                throw refusal(certificate, "its key is weaker than RSA with 2048 bits")
            }
        }
    }

    private static func refusal(_ certificate: Certificate, _ reason: String) -> CryptographyError {
        CryptographyError(doing: "use the server certificate \(certificate.subject): \(reason)")
    }
}

/// The protocol of a connection, as client and server agree on it in the handshake (ALPN, RFC 7301).
public enum ApplicationProtocol: CaseIterable, Sendable {
    case http2
    case http11

    /// The ALPN names (RFC 9113 section 3.2; RFC 7301 section 6). HTTP/1.0 is included, since its clients are
    /// understood.
    private var names: [String] {
        switch self {
        case .http2: ["h2"]
        case .http11: ["http/1.1", "http/1.0"]
        }
    }

    /// The name that a client offers.
    public var name: String { names[0] }

    /// Chooses a protocol.
    ///
    /// - Parameters:
    ///   - wanted: the supported protocols, the preferred one first.
    ///   - offered: the client's list of names, each behind a byte with its length. OpenSSL has checked that it is
    ///     well-formed.
    /// - Returns: the range of the first supported name in the list. Nil if there is none.
    static func choose(_ wanted: [ApplicationProtocol], among offered: Span<UInt8>) -> Range<Int>? {
        for name in wanted.flatMap(\.names) {
            if let place = place(of: Array(name.utf8), in: offered) { return place }
        }
        return nil
    }

    private static func place(of name: [UInt8], in offered: Span<UInt8>) -> Range<Int>? {
        var position = 0
        while position < offered.count {
            let start = position + 1
            position = start + Int(offered[position])
            guard position - start == name.count else { continue }
            if name.indices.allSatisfy({ offered[start + $0] == name[$0] }) { return start..<position }
        }
        return nil
    }
}
