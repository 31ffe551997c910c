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
        let text = try tool.run("crl", "-in", "list.pem", "-noout", "-text", "-nameopt", "RFC2253", "-CAfile", "ca.pem")
        #expect(text.contains("verify OK"))
        #expect(text.contains("Version 2 (0x1)"))
        #expect(text.contains("Signature Algorithm: ecdsa-with-SHA256"))
        #expect(text.contains("Issuer: CN=GMS CA"))
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

@Suite("Reading revocation lists")
struct SignedRevocationListTests {
    private let context: LibraryContext
    private let authority: CertificateIssuer
    private let other: CertificateIssuer
    private let now = Int64(Date().timeIntervalSince1970)

    init() throws {
        context = try LibraryContext()
        authority = try Self.authority("GMS CA", context)
        other = try Self.authority("other", context)
    }

    private static func authority(_ name: String, _ context: LibraryContext) throws -> CertificateIssuer {
        try .selfSigned(commonName: name, lifetime: 3_600, key: PrivateKey.generateP256(context), context)
    }

    private func issue(_ issuer: CertificateIssuer) throws -> (IssuedCertificate, CertificateSerial) {
        let serial = try context.randomSerial()
        let leaf = try issuer.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", end: .at(now + 600), serial: serial),
            for: PrivateKey.generateP256(context).publicKey)
        return (try IssuedCertificate(leaf, issuer: issuer.certificate, context), serial)
    }

    private func list(
        of issuer: CertificateIssuer, _ revoked: [(CertificateSerial, RevocationReason)] = []
    ) throws -> [UInt8] {
        try issuer.sign(
            RevocationList(
                number: 1, thisUpdate: now - 60, nextUpdate: now + 600,
                certificates: revoked.map { RevokedCertificate(serial: $0.0, revokedAt: now - 100, reason: $0.1) }))
    }

    private func read(_ bytes: [UInt8], _ authorities: CertificateIssuer...) throws -> [SignedRevocationList] {
        try SignedRevocationList.all(in: bytes, signedBy: authorities.map(\.certificate), context)
    }

    @Test("a list names exactly the revoked certificates with their reasons")
    func entries() throws {
        let revoked = try RevocationReason.allCases.map { (try issue(authority), $0) }
        let good = try issue(authority).0
        let read = try #require(try read(list(of: authority, revoked.map { ($0.0.1, $0.1) }), authority).first)
        #expect(read.count == revoked.count && read.issuer == "CN=GMS CA")
        for ((certificate, _), reason) in revoked {
            #expect(certificate.issuer == read.authority)
            #expect(read.reason(of: certificate) == reason.rawValue)
        }
        #expect(read.reason(of: good) == nil)
    }

    @Test("a list is fresh from its update until its next update")
    func freshness() throws {
        let read = try #require(try read(list(of: authority), authority).first)
        #expect((read.thisUpdate, read.nextUpdate) == (now - 60, now + 600))
        let times = [(now - 61, false), (now - 60, true), (now + 599, true), (now + 600, false)]
        for (time, isFresh) in times { #expect(read.isFresh(at: time) == isFresh) }
    }

    @Test("one file may hold several lists of different authorities")
    func several() throws {
        let lists = try read(list(of: authority) + list(of: other), other, authority)
        #expect(lists.map(\.issuer) == ["CN=GMS CA", "CN=other"])
        #expect(
            try lists.map(\.authority)
                == [authority, other].map { try $0.certificate.authorityIdentity(context) })
    }

    @Test("a list is refused unless a trusted authority signed it; an equal name is not enough")
    func signatures() throws {
        let namesake = try Self.authority("GMS CA", context)
        for signer in [other, namesake] {
            let error = #expect(throws: CryptographyError.self) { try read(list(of: signer), authority) }
            #expect(error?.description.contains("is not signed by an authority") == true)
        }
        #expect(try namesake.certificate.authorityIdentity(context) != authority.certificate.authorityIdentity(context))
    }

    @Test("a list with any byte changed is refused")
    func alteration() throws {
        let pem = try list(of: authority, [(try issue(authority).1, .superseded)])
        let text = String(decoding: pem, as: UTF8.self).split(separator: "\n").dropFirst().dropLast().joined()
        let der = Array(try #require(Data(base64Encoded: text)))
        #expect(try read(der, authority).count == 1)
        for index in der.indices {
            var altered = der
            altered[index] ^= 1
            #expect(throws: CryptographyError.self) { try read(altered, authority) }
        }
        for length in [0, 1, der.count - 1] {
            #expect(throws: CryptographyError.self) { try read(Array(der.prefix(length)), authority) }
        }
        #expect(throws: CryptographyError.self) { try read(der + [0], authority) }
    }
}
