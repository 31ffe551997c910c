import Cryptography
import Enrolment
import Foundation
import Testing

@Suite("Client certificates")
struct ClientCertificateIssueTests {
    private let keys: Keys
    private let now = Int64(Date().timeIntervalSince1970)

    init() throws { keys = try Keys() }

    private func authority(lifetime: Int64) throws -> CertificateIssuer {
        try CertificateIssuer.selfSigned(
            commonName: "GMS CA", lifetime: lifetime, key: PrivateKey.generateP256(keys.library), keys.library)
    }

    private func read(_ base64: String) throws -> Certificate {
        let der = Array(try #require(Data(base64Encoded: base64)))
        return try Certificate(der: der.span, keys.library)
    }

    @Test("the chain is leaf and CA, and the leaf names the device alone")
    func chain() throws {
        let authority = try authority(lifetime: 10_000_000)
        let issue = try ClientCertificateIssue(authority, keys.library)
        let key = try keys.generate()
        let device = try #require(try keys.keyID(keys.generate().point))
        let planned = try issue.plan(now: now)
        let issued = try issue.issue(planned, forKey: key.point, device: device)
        #expect(issued.chain.count == 2)
        #expect(issued.expiresAt == planned.notAfter && planned.notAfter == now + 2_592_000)
        #expect(issued.serial == planned.serial.description)
        let leaf = try read(issued.chain[0])
        #expect(leaf.publicKey?.uncompressedPoint == key.point)
        #expect(leaf.subject == "CN=AttestGate device")
        #expect(leaf.serial == issued.serial && issued.serial.utf8.count == 34)
        let names = try #require(leaf.extensionValues("2.5.29.17").first)
        #expect(String(decoding: names.dropFirst(4), as: UTF8.self) == "urn:attestgate:device:\(device)")
        #expect(leaf.notAfter == issued.expiresAt)
        let begin = try #require(leaf.notBefore)
        #expect(begin >= now - 300 && begin < now)
        #expect(try read(issued.chain[1]).thumbprint(keys.library) == authority.certificate.thumbprint(keys.library))

        let response = EnrolmentResponse.bound(issued)
        let chain = issued.chain.map(quoted).joined(separator: ",")
        let expected = #"{"certificate_chain":[\#(chain)],"expires_at":\#(issued.expiresAt)}"#
        #expect(String(decoding: response.content, as: UTF8.self) == expected)
        #expect(response.status == 200)
    }

    @Test("a certificate lives as long as configured, but not longer than its CA")
    func lifetimes() throws {
        let device = try #require(try keys.keyID(keys.generate().point))
        let point = try keys.generate().point
        let short = try ClientCertificateIssue(authority(lifetime: 10_000), lifetime: 600, keys.library)
        let leaf = try read(short.issue(short.plan(now: now), forKey: point, device: device).chain[0])
        #expect(leaf.notAfter == now + 600)
        let authority = try authority(lifetime: 1_000)
        let capped = try ClientCertificateIssue(authority, keys.library)
        #expect(try capped.plan(now: now).notAfter == authority.certificate.notAfter)
        #expect(throws: CryptographyError.self) { try capped.plan(now: now + 2_000) }
        for lifetime: Int64 in [0, 59, 31_536_001] {
            #expect(throws: CryptographyError.self) {
                try ClientCertificateIssue(authority, lifetime: lifetime, keys.library)
            }
        }
    }

    @Test("a key that is not on P-256 gets no certificate")
    func wrongKeys() throws {
        let device = try #require(try keys.keyID(keys.generate().point))
        let issue = try ClientCertificateIssue(authority(lifetime: 10_000), keys.library)
        var offCurve = try keys.generate().point
        offCurve[64] ^= 1
        for point in [[], offCurve] {
            #expect(throws: CryptographyError.self) {
                try issue.issue(issue.plan(now: now), forKey: point, device: device)
            }
        }
    }
}
