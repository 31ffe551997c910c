import COpenSSL
import Cryptography
import Testing

@testable import TLS

@Suite("Verification of client certificates")
struct ClientCertificateVerifierTests {
    private let library: LibraryContext

    init() throws {
        library = try LibraryContext()
    }

    /// A kind of key, with a name of the conf file that accepts it.
    enum Key: String, CaseIterable {
        case p256, p384, p521, ed25519, rsa2048, rsa3072

        var kind: ClientKeys.Kind {
            switch self {
            case .p256: .p256
            case .p384: .p384
            case .p521: .p521
            case .ed25519: .ed25519
            case .rsa2048: .rsa(bits: 2048)
            case .rsa3072: .rsa(bits: 3072)
            }
        }

        func make(_ library: LibraryContext) throws -> PrivateKey {
            switch self {
            case .p256: try generate("EC", library) { EVP_PKEY_CTX_set_group_name($0, "P-256") }
            case .p384: try generate("EC", library) { EVP_PKEY_CTX_set_group_name($0, "P-384") }
            case .p521: try generate("EC", library) { EVP_PKEY_CTX_set_group_name($0, "P-521") }
            case .ed25519: try generate("ED25519", library) { _ in 1 }
            case .rsa2048: try generate("RSA", library) { EVP_PKEY_CTX_set_rsa_keygen_bits($0, 2048) }
            case .rsa3072: try generate("RSA", library) { EVP_PKEY_CTX_set_rsa_keygen_bits($0, 3072) }
            }
        }
    }

    @Test("a key is accepted by its own kind, and RSA also by a smaller modulus", arguments: Key.allCases)
    func kinds(_ key: Key) throws {
        let certificate = try issue(.client, key, by: try issuer(.p256))
        for other in Key.allCases {
            let isFit = other == key || (key, other) == (.rsa3072, .rsa2048)
            let objection = ClientKeys([other.kind]).objection(to: certificate)
            #expect((objection == nil) == isFit, "\(key) by \(other): \(objection ?? "accepted")")
            #expect(objection?.contains(", and `keys` accepts \(other.rawValue)") ?? true)
        }
        #expect((ClientKeys.strong.objection(to: certificate) == nil) == (key != .rsa2048))
    }

    @Test("the keys of leaf and authority count alike", arguments: [Key.p256, .p384, .rsa2048])
    func chains(_ key: Key) throws {
        let issuer = try issuer(key)
        for leaf in [Key.p256, .p384, .rsa2048] {
            let chain = [try issue(.client, leaf, by: issuer)]
            for accepted in [[leaf], [key], [leaf, key]] {
                let keys = ClientKeys(accepted.map(\.kind))
                let result = try context(trusting: issuer, ClientAdmission(keys: keys)).trust.verify(chain)
                let isFit = accepted.contains(leaf) && accepted.contains(key)
                #expect((fault(result) == nil) == isFit, "\(leaf) by \(key), accepting \(accepted)")
                if !isFit { #expect(fault(result)?.kind == .unsuitable) }
            }
        }
    }

    @Test("an objection names the certificate and its key")
    func reasons() throws {
        let issuer = try issuer(.rsa2048)
        let chain = [try issue(.client, .p256, by: issuer)]
        let refused = fault(try context(trusting: issuer).trust.verify(chain))
        #expect(refused?.reason == "the authority CN=authority has the key RSA-2048, and `keys` accepts p256")
        #expect(refused?.certificate?.subject == "CN=client")
    }

    @Test("a certificate for servers is refused even where the usage may be absent")
    func usage() throws {
        let issuer = try issuer(.p256)
        let chain = [try issue(.server(names: ["localhost"]), .p256, by: issuer)]
        for usage in [ClientAdmission.UsageDemand.required, .ifPresent] {
            let context = try context(trusting: issuer, ClientAdmission(usage: usage))
            #expect(fault(try context.trust.verify(chain))?.kind == .unsuitable)
            #expect(fault(try context.trust.verify([try issue(.client, .p256, by: issuer)])) == nil)
        }
    }

    @Test("the signature algorithms are those of the keys, and of P-256 for self-signed certificates")
    func signatures() {
        func names(_ kinds: [ClientKeys.Kind], selfSigned: Bool = false) -> String {
            ClientKeys(kinds).signatures(selfSigned: selfSigned).joined(separator: ":")
        }
        let rsa =
            "rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512"
            + ":rsa_pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512"
        #expect(names([.p256]) == "ecdsa_secp256r1_sha256")
        #expect(names([.ed25519, .p384]) == "ecdsa_secp384r1_sha384:ed25519")
        #expect(names([.rsa(bits: 4096)]) == rsa)
        #expect(names([.rsa(bits: 2048)], selfSigned: true) == "ecdsa_secp256r1_sha256:" + rsa)
    }

    @Test("a session without an identity is found only where certificates are optional")
    func sessions() throws {
        let table = SessionTable(limit: 16)
        let session = try #require(SSL_SESSION_new())
        let bytes = [UInt8](1...32)
        #expect(SSL_SESSION_set1_id(session, bytes, 32) == 1)
        let id = try #require(bytes.withUnsafeBufferPointer(SessionID.init))
        table.insert(session)
        #expect(table.find(id, admitting: ClientAdmission()) == nil)
        let found = table.find(id, admitting: ClientAdmission(isOptional: true))
        #expect(found == session)
        SSL_SESSION_free(found)
        table.remove(id)
        #expect(table.find(id, admitting: ClientAdmission(isOptional: true)) == nil)
        #expect(table.count == 0)
    }

    @Test("sessions without an identity stay within places of their own")
    func crowd() throws {
        let table = SessionTable(limit: 16 * 8)
        for number in 0..<1_000 {
            let session = try #require(SSL_SESSION_new())
            var bytes = [UInt8](repeating: 0, count: 32)
            (bytes[0], bytes[1], bytes[24]) = (UInt8(number % 256), UInt8(number / 256), UInt8(number % 16))
            #expect(SSL_SESSION_set1_id(session, bytes, 32) == 1)
            table.insert(session)
        }
        #expect(table.count == 16 * 2)
    }

    private func issuer(_ key: Key) throws -> CertificateIssuer {
        try CertificateIssuer.selfSigned(commonName: "authority", lifetime: 60, key: try key.make(library), library)
    }

    private func issue(
        _ purpose: CertificateTemplate.Purpose, _ key: Key, by issuer: CertificateIssuer
    ) throws -> Certificate {
        let template = CertificateTemplate(purpose: purpose, commonName: "client", lifetime: 60)
        return try issuer.issue(template, for: key.make(library).publicKey)
    }

    private func context(
        trusting issuer: CertificateIssuer, _ admission: ClientAdmission = ClientAdmission()
    ) throws -> ServerContext {
        let key = try PrivateKey.generateP256(library)
        let template = CertificateTemplate(purpose: .server(names: ["localhost"]), commonName: "server", lifetime: 60)
        return try ServerContext(
            chain: [try issuer.issue(template, for: key.publicKey)], key: key, authorities: [issuer.certificate],
            admission: admission, policy: .modern, sessions: SessionTable(limit: 1), library: library)
    }

    private func fault(_ result: Result<ClientIdentity, ClientCertificateFault>) -> ClientCertificateFault? {
        if case .failure(let fault) = result { fault } else { nil }
    }
}

private func generate(
    _ name: String, _ library: LibraryContext, _ set: (OpaquePointer) -> Int32
) throws -> PrivateKey {
    let context = try #require(EVP_PKEY_CTX_new_from_name(library.pointer, name, nil))
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    #expect(EVP_PKEY_keygen_init(context) == 1 && set(context) == 1 && EVP_PKEY_generate(context, &key) == 1)
    return PrivateKey(owning: try #require(key))
}
