import Cryptography
import TestVectors
import Testing

@Suite("HKDF-SHA-256")
struct KeyDerivationTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    private func derive(_ secret: [UInt8], _ salt: [UInt8], _ info: [UInt8], _ count: Int) throws -> [UInt8] {
        try KeyDerivation.hkdfSHA256(secret: secret.span, salt: salt.span, info: info.span, count: count, context)
    }

    @Test("RFC 5869 A.1: basic case")
    func basic() throws {
        let key = try derive([UInt8](repeating: 0x0b, count: 22), Array(0...12), Array(0xf0...0xf9), 42)
        #expect(key == hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"))
    }

    @Test("RFC 5869 A.2: longer inputs and outputs")
    func longer() throws {
        let key = try derive(Array(0x00...0x4f), Array(0x60...0xaf), Array(0xb0...0xff), 82)
        let expected = hex(
            """
            b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09
            da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87
            """)
        #expect(key == expected)
    }

    @Test("RFC 5869 A.3: no salt and no info")
    func neither() throws {
        let key = try derive([UInt8](repeating: 0x0b, count: 22), [], [], 42)
        #expect(key == hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"))
    }

    @Test("omitted salt and info are empty")
    func absent() throws {
        let secret = [UInt8](repeating: 0x0b, count: 22)
        let key = try KeyDerivation.hkdfSHA256(secret: secret.span, info: Span(), count: 42, context)
        #expect(try key == derive(secret, [], [], 42))
    }

    @Test("an empty secret and impossible lengths are refused", arguments: [0, -1, 255 * 32 + 1])
    func refused(_ count: Int) throws {
        #expect(throws: CryptographyError.self) { try derive([1], [], [], count) }
        #expect(throws: CryptographyError.self) { try derive([], [], [], 32) }
    }

    @Test("the info has at most 1024 bytes")
    func longInfo() throws {
        #expect(try derive([1], [], [UInt8](repeating: 1, count: 1024), 32).count == 32)
        #expect(throws: CryptographyError.self) { try derive([1], [], [UInt8](repeating: 1, count: 1025), 32) }
    }
}
