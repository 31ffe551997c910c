import COpenSSL
import Cryptography
import Testing
import Vocabulary

@Suite("Issuing certificates")
struct CertificateIssuerTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    @Test("a root issues for an authority, which issues for a client: the chain verifies")
    func chain() throws {
        let rootKey = try PrivateKey.generateP384(context)
        let root = try CertificateIssuer.selfSigned(
            .rootAuthority, commonName: "root", lifetime: 3_600, key: rootKey, context)
        let key = try PrivateKey.generateP384(context)
        let template = CertificateTemplate(purpose: .authority, commonName: "intermediate", lifetime: 3_600)
        let intermediate = try CertificateIssuer(
            certificate: root.issue(template, for: key.publicKey), key: key, context)
        let leaf = try intermediate.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", lifetime: 3_600),
            for: PrivateKey.generateP256(context).publicKey)
        #expect(root.certificate.isAuthority && intermediate.certificate.isAuthority && !leaf.isAuthority)
        #expect(verify(leaf, through: [intermediate.certificate], to: root.certificate) == X509_V_OK)

        // At most one level is below the root.
        let deeperKey = try PrivateKey.generateP384(context)
        let deeperTemplate = CertificateTemplate(purpose: .authority, commonName: "deeper", lifetime: 3_600)
        let deeper = try CertificateIssuer(
            certificate: intermediate.issue(deeperTemplate, for: deeperKey.publicKey), key: deeperKey, context)
        let tooDeep = try deeper.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", lifetime: 3_600),
            for: PrivateKey.generateP256(context).publicKey)
        let path = [deeper.certificate, intermediate.certificate]
        #expect(verify(tooDeep, through: path, to: root.certificate) == X509_V_ERR_PATH_LENGTH_EXCEEDED)
    }

    @Test("a self-signed client certificate is its own issuer and can issue nothing")
    func selfSignedClient() throws {
        let key = try PrivateKey.generateP256(context)
        let certificate = try CertificateIssuer.selfSignedClient(
            commonName: "phone", lifetime: 3_600, key: key, context)
        #expect(certificate.isNamedIssuer(of: certificate) && !certificate.mayBeAuthority)
        #expect(certificate.publicKey?.uncompressedPoint == key.publicKey.uncompressedPoint)
        #expect(throws: CryptographyError.self) {
            try CertificateIssuer(certificate: certificate, key: key, context)
        }
    }

    @Test("a device's certificate names the device by URN and nothing else")
    func device() throws {
        let authority = try CertificateIssuer.selfSigned(
            commonName: "authority", lifetime: 3_600, key: PrivateKey.generateP256(context), context)
        let digest = (0..<32).map { UInt8($0) }
        let made = KeyID(digest: digest.span)
        let keyID = try #require(made)
        let template = CertificateTemplate(purpose: .device(keyID), commonName: "device", lifetime: 60)
        let leaf = try authority.issue(template, for: PrivateKey.generateP256(context).publicKey)
        // SEQUENCE of one name: [6], a URI (RFC 5280 section 4.2.1.6).
        let urn = Array("urn:attestgate:device:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".utf8)
        let name = [0x86, UInt8(urn.count)] + urn
        #expect(leaf.extensionValues("2.5.29.17") == [[0x30, UInt8(name.count)] + name])
        // id-kp-clientAuth alone; digitalSignature alone; no authority.
        #expect(leaf.extensionValues("2.5.29.37") == [[0x30, 0x0a, 0x06, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2]])
        #expect(leaf.extensionValues("2.5.29.15") == [[0x03, 0x02, 0x07, 0x80]])
        #expect(leaf.extensionValues("2.5.29.19") == [[0x30, 0x00]])
        #expect(verify(leaf, through: [], to: authority.certificate) == X509_V_OK)
    }

    @Test("serial numbers are 128 random bits behind a one, and no two are the same")
    func serials() throws {
        let key = try PrivateKey.generateP256(context)
        let authority = try CertificateIssuer.selfSigned(
            commonName: "authority", lifetime: 3_600, key: key, context)
        let template = CertificateTemplate(purpose: .client, commonName: "x", lifetime: 60)
        var serials: Set<String> = []
        for _ in 0..<64 {
            let serial = try authority.issue(template, for: key.publicKey).serial
            #expect(serial.utf8.count == 34 && serial.hasPrefix("01"))
            serials.insert(serial)
        }
        #expect(serials.count == 64)
        // Every digit after the first is random. All 64 are equal in one of 2^252 runs.
        let digits = serials.map { Array($0.utf8) }
        for place in 2..<34 { #expect(Set(digits.map { $0[place] }).count > 1) }
    }

    @Test("a public key is made from an uncompressed point on the curve")
    func points() throws {
        let point = try #require(PrivateKey.generateP256(context).publicKey.uncompressedPoint)
        func make(_ point: [UInt8]) throws -> PublicKey { try PublicKey(point: point.span, context) }
        #expect(try make(point).uncompressedPoint == point)
        let offCurve = Array(point.dropLast()) + [point[64] ^ 1]
        let hybrid = [6 | point[64] & 1] + point.dropFirst()
        for wrong in [[], Array(point.dropLast()), point + [0], offCurve, hybrid] {
            #expect(throws: CryptographyError.self) { try make(wrong) }
        }
    }

    @Test("a public key survives encoding as PEM and decoding")
    func publicKeys() throws {
        let key = try PrivateKey.generateP256(context).publicKey
        let read = try PublicKey(pem: key.pem(), context)
        #expect(read.uncompressedPoint == key.uncompressedPoint)
    }

    private func verify(_ leaf: Certificate, through path: [Certificate], to root: Certificate) -> Int32 {
        let store = X509_STORE_new()
        let untrusted = OPENSSL_sk_new_null()
        let verification = X509_STORE_CTX_new_ex(context.pointer, nil)
        defer {
            X509_STORE_CTX_free(verification)
            OPENSSL_sk_free(untrusted)
            X509_STORE_free(store)
        }
        X509_STORE_add_cert(store, root.pointer)
        for certificate in path { OPENSSL_sk_push(untrusted, UnsafeRawPointer(certificate.pointer)) }
        X509_STORE_CTX_init(verification, store, leaf.pointer, untrusted)
        X509_verify_cert(verification)
        return withExtendedLifetime(path) { X509_STORE_CTX_get_error(verification) }
    }
}

@Suite("The issuing authority's files")
struct AuthoritySourceTests {
    private let context: LibraryContext
    private let tool: OpenSSLTool

    init() throws {
        context = try LibraryContext()
        tool = try OpenSSLTool()
    }

    private static let authority = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]

    /// Creates `NAME.pem` and an encrypted `NAME.key`, as the documentation describes.
    private func make(
        _ name: String, extensions: [String] = authority,
        curve: [String] = ["EC", "-pkeyopt", "ec_paramgen_curve:P-384"]
    ) throws {
        let genpkey = ["genpkey", "-algorithm"] + curve
        try tool.run(genpkey + ["-aes-256-cbc", "-pass", "pass:opensesame", "-out", "\(name).key"])
        // With an own configuration, only the requested extensions are present.
        try tool.write(Array("[req]\ndistinguished_name=dn\n[dn]\n".utf8), to: "empty.cnf")
        let request = [
            "req", "-x509", "-config", "empty.cnf", "-key", "\(name).key", "-passin", "pass:opensesame", "-subj",
            "/CN=\(name)", "-out", "\(name).pem",
        ]
        try tool.run(request + extensions.flatMap { ["-addext", $0] })
    }

    private func refusal(certificate: String, key: String, _ passphrase: String? = "opensesame") throws -> String {
        let source = AuthoritySource(
            certificate: try tool.read(certificate), key: try tool.read(key),
            passphrase: try passphrase.map { try Passphrase(Array($0.utf8)) })
        do throws(CryptographyError) {
            _ = try source.issuer(context)
            return ""
        } catch {
            return error.description
        }
    }

    @Test("an authority with an encrypted key issues certificates that the openssl tool accepts")
    func issuing() throws {
        try make("gms")
        let source = AuthoritySource(
            certificate: try tool.read("gms.pem"), key: try tool.read("gms.key"),
            passphrase: try Passphrase(Array("opensesame\n".utf8)))
        let issuer = try source.issuer(context)
        let leaf = try issuer.issue(
            CertificateTemplate(purpose: .client, commonName: "phone", lifetime: 60),
            for: PrivateKey.generateP256(context).publicKey)
        try tool.write(leaf.pem(), to: "leaf.pem")
        #expect(
            try tool.run("verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", "gms.pem", "leaf.pem")
                == "leaf.pem: OK\n")
    }

    @Test("a key that does not match its certificate, or a file of several certificates, is refused")
    func mismatch() throws {
        try make("one")
        try make("two")
        #expect(try refusal(certificate: "one.pem", key: "one.key") == "")
        #expect(try refusal(certificate: "one.pem", key: "two.key").contains("it is not the certificate's"))
        #expect(try refusal(certificate: "one.pem", key: "one.key", "wrong").contains("decrypt the private key"))
        #expect(try refusal(certificate: "one.pem", key: "one.key", nil).contains("there is no passphrase for it"))
        try tool.write(tool.read("one.pem") + tool.read("two.pem"), to: "both.pem")
        #expect(try refusal(certificate: "both.pem", key: "one.key").contains("2 certificates"))
        #expect(try refusal(certificate: "one.key", key: "one.key").contains("no BEGIN CERTIFICATE"))
    }

    @Test("a file with other content is refused with what it holds")
    func otherFiles() throws {
        try make("one")
        #expect(try refusal(certificate: "one.key", key: "one.key").hasSuffix("; it holds an encrypted private key"))
        #expect(try refusal(certificate: "one.pem", key: "one.pem", nil).hasSuffix("; it holds a certificate"))
        _ = try tool.run("x509", "-in", "one.pem", "-outform", "DER", "-out", "one.der")
        #expect(try refusal(certificate: "one.der", key: "one.key").contains("it is a certificate in DER"))
        #expect(try refusal(certificate: "one.pem", key: "one.der", nil).contains("it is a certificate in DER"))
        let text = String(decoding: try tool.read("one.pem"), as: UTF8.self)
        try tool.write(Array(text.replacing("CERTIFICATE", with: "PRIVATE KEY").utf8), to: "called.key")
        #expect(try refusal(certificate: "one.pem", key: "called.key", nil).hasSuffix("private key is a certificate"))
        try tool.write(Array(text.dropLast(40).utf8), to: "cut.pem")
        #expect(try refusal(certificate: "cut.pem", key: "one.key").hasSuffix("the file is truncated"))
        // A damaged file of either kind is refused, whatever the fault is.
        try tool.write(Array(text.replacing("M", with: "N").utf8), to: "changed.pem")
        #expect(try refusal(certificate: "changed.pem", key: "one.key") != "")
        #expect(try refusal(certificate: "one.pem", key: "changed.pem", nil) != "")
    }

    @Test("a certificate that is no authority or may not sign certificates is refused")
    func purposes() throws {
        try make("leaf", extensions: ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"])
        #expect(try refusal(certificate: "leaf.pem", key: "leaf.key").contains("is not a certification authority"))
        try make("lists", extensions: ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,cRLSign"])
        #expect(try refusal(certificate: "lists.pem", key: "lists.key").contains("is not a certification authority"))
        // Without key usage, OpenSSL treats it as an authority.
        try make("unsaid", extensions: ["basicConstraints=critical,CA:TRUE"])
        #expect(try refusal(certificate: "unsaid.pem", key: "unsaid.key").contains("lacks keyCertSign"))
        try make("nameless", extensions: Self.authority + ["subjectKeyIdentifier=none"])
        #expect(try refusal(certificate: "nameless.pem", key: "nameless.key").contains("no subject key identifier"))
    }

    @Test("keys of unknown kinds, or weaker than verification requires, are refused")
    func strength() throws {
        try make("weak", curve: ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        #expect(try refusal(certificate: "weak.pem", key: "weak.key").contains("112 bits of strength"))
        try make("strong", curve: ["RSA", "-pkeyopt", "rsa_keygen_bits:3072"])
        #expect(try refusal(certificate: "strong.pem", key: "strong.key") == "")
        try make("edwards", curve: ["ED25519"])
        #expect(try refusal(certificate: "edwards.pem", key: "edwards.key").contains("neither EC nor RSA"))
    }
}
