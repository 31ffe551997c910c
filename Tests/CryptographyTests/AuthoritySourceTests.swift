import Cryptography
import Testing

@Suite("The issuing authority's files")
struct AuthoritySourceTests {
    private let context: LibraryContext
    private let tool: OpenSSLTool

    init() throws {
        context = try LibraryContext()
        tool = try OpenSSLTool()
    }

    private static let authority = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]

    /// Makes `NAME.pem` and `NAME.key`, encrypted, as the documentation says.
    private func make(
        _ name: String, extensions: [String] = authority,
        curve: [String] = ["EC", "-pkeyopt", "ec_paramgen_curve:P-384"]
    ) throws {
        let genpkey = ["genpkey", "-algorithm"] + curve
        try tool.run(genpkey + ["-aes-256-cbc", "-pass", "pass:opensesame", "-out", "\(name).key"])
        // A configuration of its own, so that no extension is there but those that are asked for.
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
        // Neither one nor the other: whatever it is, nobody asks for ever.
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
        // Without key usage OpenSSL takes it for an authority.
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
