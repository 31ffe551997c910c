import Cryptography
import Testing
import Vocabulary

@Suite("Digest values")
struct DigestTests {
    private func digest(_ bytes: [UInt8]) -> Digest256? { Digest256(bytes.span) }

    private func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool { ConstantTime.areEqual(left.span, right.span) }

    @Test("only the exact length makes a digest", arguments: [0, 1, 31, 33, 64])
    func length(_ count: Int) {
        #expect(digest([UInt8](repeating: 7, count: count)) == nil)
    }

    @Test("digests that differ in one bit differ")
    func equality() throws {
        let bytes = (0..<32).map { UInt8($0) }
        let digest = try #require(self.digest(bytes))
        #expect(digest == self.digest(bytes))
        for bit in 0..<256 {
            var other = bytes
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(digest != self.digest(other))
        }
    }

    @Test("a SHA-256 digest is read as a key id without a copy")
    func keyID() throws {
        let bytes = (0..<32).map { UInt8($0) }
        let digest = try #require(self.digest(bytes))
        #expect(KeyID(digest: digest.span) == KeyID(digest: bytes.span))
        #expect(digest.bytes == bytes)
    }

    @Test("constant-time comparison finds a difference anywhere, also in length")
    func constantTime() {
        let bytes = [UInt8](repeating: 0, count: 40)
        #expect(areEqual(bytes, bytes))
        #expect(areEqual([], []))
        #expect(!areEqual(bytes, Array(bytes.dropLast())))
        #expect(!areEqual(bytes, []))
        for index in bytes.indices {
            var other = bytes
            other[index] = 0x80
            #expect(!areEqual(bytes, other))
        }
    }
}
