import Cryptography
import Testing
import TestVectors

@Suite("HMAC-SHA-256")
struct AuthenticationKeyTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    /// RFC 4231 sections 4.2 to 4.8. Case 5 prints the first 128 bits only.
    static let vectors: [(key: [UInt8], message: [UInt8], code: String)] = [
        (
            [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        (
            Array(1...25), [UInt8](repeating: 0xcd, count: 50),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
        ),
        (
            [UInt8](repeating: 0x0c, count: 20), Array("Test With Truncation".utf8),
            "a3b6167473100ee06e0c796c2955552b"
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array(
                ("This is a test using a larger than block-size key and a larger than block-size data. "
                    + "The key needs to be hashed before being used by the HMAC algorithm.").utf8),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        ),
    ]

    @Test("the codes are those of RFC 4231, at every use of the key", arguments: vectors.indices)
    func known(_ index: Int) throws {
        let vector = Self.vectors[index]
        let expected = hex(vector.code)
        let key = try AuthenticationKey(vector.key.span, context)
        let other: [UInt8] = [1, 2, 3]
        for _ in 0..<3 {
            #expect(try Array(key.code(of: vector.message.span).bytes.prefix(expected.count)) == expected)
            _ = try key.code(of: other.span)
        }
    }

    @Test("keys of one context do not affect each other")
    func independent() throws {
        let keys = try Self.vectors.map { try AuthenticationKey($0.key.span, context) }
        for (key, vector) in zip(keys, Self.vectors) {
            let expected = hex(vector.code)
            #expect(try Array(key.code(of: vector.message.span).bytes.prefix(expected.count)) == expected)
        }
    }

    @Test("an empty key is refused")
    func empty() {
        let none: [UInt8] = []
        #expect(throws: CryptographyError.self) { try AuthenticationKey(none.span, context) }
    }
}

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

@Suite("Pseudonyms of people")
struct SubjectPseudonymsTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func pseudonym(_ issuer: String, _ subject: String, key: UInt8 = 1) throws -> Digest256 {
        let bytes = [UInt8](repeating: key, count: 32)
        let subjects = SubjectPseudonyms(try AuthenticationKey(bytes.span, library))
        return try subjects.pseudonym(ofSubject: Array(subject.utf8), issuer: issuer)
    }

    @Test("a pseudonym depends on issuer, subject and key, and on nothing else")
    func distinct() throws {
        let one = try pseudonym("https://a", "7")
        #expect(try pseudonym("https://a", "7") == one)
        #expect(try pseudonym("https://a", "8") != one)
        #expect(try pseudonym("https://b", "7") != one)
        #expect(try pseudonym("https://a", "7", key: 2) != one)
        // No byte may move from one input to the other.
        #expect(try pseudonym("https://", "a7") != one)
        #expect(try pseudonym("https://a7", "") != one)
        #expect(try pseudonym("1", "1:x") != pseudonym("11:1", "x"))
    }
}
