import Cryptography
import Registry
import Testing
import Vocabulary

@testable import Gateway

@Suite("The cache of verification keys")
struct VerificationKeyCacheTests {
    /// The base point of P-256 (FIPS 186-4, D.1.2.3), which is a valid public key like any other.
    private static let point: [UInt8] =
        [4]
        + [
            0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03,
            0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
        ]
        + [
            0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
            0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
        ]

    private func id(_ number: UInt8) throws -> KeyID {
        let bytes = [UInt8](repeating: number, count: 32)
        let id = KeyID(digest: bytes.span)
        return try #require(id)
    }

    @Test("used keys stay, unused ones are evicted, and the limit holds")
    func bounded() throws {
        let library = try LibraryContext()
        let point = try #require(PublicPoint(Self.point))
        var cache = VerificationKeyCache(limit: 8)
        let kept = try cache.verifier(of: try id(0), point, library)
        for number in 1...100 as ClosedRange<UInt8> {
            _ = try cache.verifier(of: try id(number), point, library)
            let again = try cache.verifier(of: try id(0), point, library)
            #expect(again === kept)
            #expect(cache.count <= 8)
        }
        let old = try cache.verifier(of: try id(1), point, library)
        let same = try cache.verifier(of: try id(1), point, library)
        #expect(old === same)
    }

    @Test("a point that is no key is an error and is not cached")
    func invalid() throws {
        let library = try LibraryContext()
        let point = try #require(PublicPoint([4] + [UInt8](repeating: 1, count: 64)))
        var cache = VerificationKeyCache(limit: 8)
        #expect(throws: CryptographyError.self) { try cache.verifier(of: try id(1), point, library) }
        #expect(cache.count == 0)
    }
}
