import Cryptography
import Foundation
import Testing
import Vocabulary

@Suite("Revocation lists")
struct RevocationListTests {
    private let context: LibraryContext
    private let tool: OpenSSLTool
    private let authority: CertificateIssuer
    private let now = Int64(Date().timeIntervalSince1970)

    init() throws {
        context = try LibraryContext()
        tool = try OpenSSLTool()
        authority = try CertificateIssuer.selfSigned(
            commonName: "GMS CA", lifetime: 3_600, key: PrivateKey.generateP256(context), context)
        try tool.write(authority.certificate.pem(), to: "ca.pem")
    }

    /// Writes `NAME.pem`.
    private func issue(_ name: String) throws -> CertificateSerial {
        let serial = try context.randomSerial()
        let leaf = try authority.issue(
            CertificateTemplate(purpose: .client, commonName: name, end: .at(now + 600), serial: serial),
            for: PrivateKey.generateP256(context).publicKey)
        #expect(leaf.serial == serial.description)
        #expect(leaf.notAfter == now + 600)
        try tool.write(leaf.pem(), to: "\(name).pem")
        return serial
    }

    private func write(_ certificates: [RevokedCertificate], number: Int64 = 1) throws {
        let list = RevocationList(
            number: number, thisUpdate: now - 60, nextUpdate: now + 600, certificates: certificates)
        try tool.write(authority.sign(list), to: "list.pem")
    }

    private func verify(_ name: String) throws -> String {
        try tool.run(
            "verify", "-crl_check", "-x509_strict", "-CAfile", "ca.pem", "-CRLfile", "list.pem", "\(name).pem")
    }

    @Test("the openssl tool refuses the listed certificates and accepts the others")
    func verification() throws {
        let reasons = RevocationReason.allCases
        let revoked = try reasons.map { reason in
            RevokedCertificate(serial: try issue(reason.rawValue), revokedAt: now - 100, reason: reason)
        }
        _ = try issue("good")
        try write(revoked)
        #expect(try verify("good") == "good.pem: OK\n")
        for reason in reasons {
            let failure = #expect(throws: OpenSSLTool.Failure.self) { try verify(reason.rawValue) }
            #expect(failure?.text.contains("certificate revoked") == true)
        }
        try write([])
        for reason in reasons { #expect(try verify(reason.rawValue) == "\(reason.rawValue).pem: OK\n") }
    }

    @Test("a list is version 2 and signed, with number, key identifier, times and reasons")
    func fields() throws {
        let serials = try ["a", "b", "c"].map { try issue($0) }
        try write(
            zip(serials, RevocationReason.allCases).map {
                RevokedCertificate(serial: $0, revokedAt: 1_700_000_000, reason: $1)
            }, number: 1_795_000_001)
        let text = try tool.run("crl", "-in", "list.pem", "-noout", "-text", "-CAfile", "ca.pem")
        #expect(text.contains("verify OK"))
        #expect(text.contains("Version 2 (0x1)"))
        #expect(text.contains("Signature Algorithm: ecdsa-with-SHA256"))
        #expect(text.contains("Issuer: CN = GMS CA"))
        #expect(text.contains("X509v3 CRL Number: \n                1795000001"))
        let identifier = try tool.run("x509", "-in", "ca.pem", "-noout", "-ext", "subjectKeyIdentifier")
            .split(separator: "\n").last.map { $0.trimmingCharacters(in: .whitespaces) }
        #expect(text.contains(try #require(identifier)))
        for serial in serials { #expect(text.contains("Serial Number: \(serial)")) }
        #expect(text.components(separatedBy: "Revocation Date: Nov 14 22:13:20 2023 GMT").count == 4)
        for reason in ["Superseded", "Cessation Of Operation", "Certificate Hold"] { #expect(text.contains(reason)) }
        let times = try tool.run("crl", "-in", "list.pem", "-noout", "-lastupdate", "-nextupdate")
        #expect(times.contains("lastUpdate=") && times.contains("nextUpdate="))
        #expect(times.split(separator: "\n").count == 2)
    }

    @Test("an authority that may not sign lists signs none")
    func keyUsage() throws {
        try tool.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "only.key")
        try tool.run(
            "req", "-x509", "-key", "only.key", "-subj", "/CN=only", "-out", "only.pem", "-addext",
            "keyUsage=critical,keyCertSign")
        let source = AuthoritySource(
            certificate: try tool.read("only.pem"), key: try tool.read("only.key"), passphrase: nil)
        let issuer = try source.issuer(context)
        let list = RevocationList(number: 1, thisUpdate: now, nextUpdate: now + 1, certificates: [])
        let error = #expect(throws: CryptographyError.self) { try issuer.sign(list) }
        #expect(error?.description.contains("lacks cRLSign") == true)
    }
}
