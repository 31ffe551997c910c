import Cryptography
import Encoding
import Testing

@Suite("AES with 256 bits")
struct SecretKeyTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    private func bytes(_ text: String) throws -> [UInt8] {
        try #require(Hexadecimal.decode(text.filter { $0 != " " }[...]))
    }

    private func key(_ text: String) throws -> SecretKey { try #require(SecretKey(bytes(text))) }

    @Test("keys are unwrapped as in RFC 3394")
    func vectors() throws {
        let key = try key("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
        // Sections 4.3, 4.5 and 4.6: data of 128, 192 and 256 bits.
        let vectors = [
            ("64e8c3f9ce0f5ba2 63e9777905818a2a 93c8191e7d6e8ae7", "00112233445566778899aabbccddeeff"),
            (
                "a8f9bc1612c68b3f f6e6f4fbe30e71e4 769c8b80a32cb895 8cd5d17d6b254da1",
                "00112233445566778899aabbccddeeff0001020304050607"
            ),
            (
                "28c9f404c4b810f4 cbccb35cfb87f826 3f5786e2d80ed326 cbc7f0e71a99f43b fb988b9b7a02dd21",
                "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f"
            ),
        ]
        for (wrapped, data) in vectors {
            #expect(try key.unwrap(bytes(wrapped), library) == bytes(data))
        }
    }

    @Test("a wrapped key with any bit changed, of another length, or for another key is refused")
    func unwrapRefused() throws {
        let key = try key("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
        let wrapped = try bytes(
            "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21")
        for index in wrapped.indices {
            for bit in 0..<8 {
                var other = wrapped
                other[index] ^= 1 << UInt8(bit)
                #expect(try key.unwrap(other, library) == nil)
            }
        }
        for length in 0..<wrapped.count { #expect(try key.unwrap(Array(wrapped.prefix(length)), library) == nil) }
        #expect(try key.unwrap(wrapped + [UInt8](repeating: 0, count: 8), library) == nil)
        #expect(try key.unwrap([UInt8](repeating: 0, count: 80), library) == nil)
        let other = try self.key(String(repeating: "00", count: 32))
        #expect(try other.unwrap(wrapped, library) == nil)
        for length in [0, 16, 24, 31, 33] { #expect(SecretKey([UInt8](repeating: 0, count: length)) == nil) }
    }

    @Test("content is decrypted as in the specification of GCM, and refused with any bit changed")
    func content() throws {
        // Test case 16 of "The Galois/Counter Mode of Operation (GCM)".
        let key = try key("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
        let nonce = try bytes("cafebabefacedbaddecaf888")
        let data = try bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        let ciphertext = try bytes(
            """
            522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
            8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
            """)
        let tag = try bytes("76fc6ece0f4e1768cddf8853bb2d551b")
        let plaintext = try bytes(
            """
            d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
            1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39
            """)
        func open(
            _ ciphertext: [UInt8], _ nonce: [UInt8], _ data: [UInt8], _ tag: [UInt8]
        ) throws -> [UInt8]? {
            try key.open(ciphertext, nonce: nonce, authenticating: data, tag: tag, library)
        }
        #expect(try open(ciphertext, nonce, data, tag) == plaintext)
        for index in ciphertext.indices {
            var other = ciphertext
            other[index] ^= 1
            #expect(try open(other, nonce, data, tag) == nil)
        }
        for index in tag.indices {
            var other = tag
            other[index] ^= 0x80
            #expect(try open(ciphertext, nonce, data, other) == nil)
        }
        #expect(try open(ciphertext, nonce, data + [0], tag) == nil)
        #expect(try open(ciphertext, nonce, [], tag) == nil)
        // A short tag would be easier to forge, and another length of the vector is another algorithm.
        #expect(try open(ciphertext, nonce, data, Array(tag.prefix(12))) == nil)
        #expect(try open(ciphertext, nonce + [0], data, tag) == nil)
        #expect(try open([], nonce, data, tag) == nil)
    }
}
