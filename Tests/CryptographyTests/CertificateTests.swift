import Cryptography
import Foundation
import Testing

@Suite("Certificates")
struct CertificateTests {
    private let library: LibraryContext
    private let key: PrivateKey
    private let certificate: Certificate

    init() throws {
        library = try LibraryContext()
        key = try PrivateKey.generateP256(library)
        certificate = try CertificateIssuer.selfSigned(commonName: "root", lifetime: 1000, key: key, library)
            .certificate
    }

    /// Returns the decoded content of a PEM text.
    private func der(_ pem: [UInt8]) throws -> [UInt8] {
        let lines = String(decoding: pem, as: UTF8.self).split(separator: "\n").dropFirst().dropLast()
        return Array(try #require(Data(base64Encoded: lines.joined())))
    }

    private func read(_ bytes: [UInt8]) throws -> Certificate { try Certificate(der: bytes.span, library) }

    @Test("a certificate is read from DER, complete and without trailing bytes")
    func der() throws {
        let bytes = try der(certificate.pem())
        #expect(try certificate.der() == bytes)
        #expect(try read(bytes).thumbprint(library) == certificate.thumbprint(library))
        #expect(throws: CryptographyError.self) { try read(bytes + [0]) }
        for count in [0, 1, bytes.count / 2, bytes.count - 1] {
            #expect(throws: CryptographyError.self) { try read(Array(bytes[..<count])) }
        }
    }

    @Test("validity, extensions by identifier and possible issuers are returned")
    func contents() throws {
        let begin = try #require(certificate.notBefore)
        let end = try #require(certificate.notAfter)
        #expect(end - begin == 1300)
        // Basic constraints: CA, path length 0.
        #expect(certificate.extensionValues("2.5.29.19") == [[0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01, 0x00]])
        #expect(certificate.extensionValues("1.2.840.113635.100.8.2") == [])
        #expect(certificate.isNamedIssuer(of: certificate))
        #expect(certificate.isAuthority && certificate.mayBeAuthority)
        let issuer = try CertificateIssuer(certificate: certificate, key: key, library)
        let leaf = try issuer.issue(
            CertificateTemplate(purpose: .client, commonName: "leaf", lifetime: 10), for: key.publicKey)
        #expect(certificate.isNamedIssuer(of: leaf) && !leaf.isNamedIssuer(of: certificate))
        #expect(!leaf.isAuthority && !leaf.mayBeAuthority)
    }

    @Test("a public key is read from DER, complete and without trailing bytes")
    func publicKeys() throws {
        let point = try #require(key.publicKey.uncompressedPoint)
        let head: [UInt8] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ]
        func read(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(der: bytes.span, library) }
        #expect(try read(head + point).uncompressedPoint == point)
        #expect(throws: CryptographyError.self) { try read(head + point + [0]) }
        #expect(throws: CryptographyError.self) { try read(head + point.dropLast()) }
        #expect(throws: CryptographyError.self) { try read([]) }
    }
}
