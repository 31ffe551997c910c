import Cryptography
import Foundation
import Testing
import Vocabulary

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
