import RequestProof
import Testing

@Suite("Content-Digest")
struct ContentDigestTests {
    // The digests of {"hello": "world"} with a line feed (RFC 9530 appendix B.1) and without (RFC 9421 appendix B.2).
    private static let sha256 = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg="
    private static let sha512 =
        "YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg=="
    private static let sha512WithoutLineFeed =
        "WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew=="

    private func parse(_ text: String) throws(ProofFault) -> ContentDigest {
        try ContentDigest(parsing: Array(text.utf8).span)
    }

    private func fault(_ text: String) -> Malformation? {
        do throws(ProofFault) {
            _ = try parse(text)
            return nil
        } catch {
            if case .malformed(.contentDigest, let malformation) = error { return malformation }
            Issue.record("refused as \(error)")
            return nil
        }
    }

    @Test("the RFCs' digests are read and written back")
    func examples() throws {
        let first = try parse("sha-256=:\(Self.sha256):")
        #expect(first.sha256?.count == 32 && first.sha512 == nil)
        #expect(first.sha256?.starts(with: [0x44, 0xaf, 0xf4, 0xab]) == true)
        for text in [Self.sha512, Self.sha512WithoutLineFeed] {
            let digest = try parse("sha-512=:\(text):")
            let bytes = try #require(digest.sha512)
            #expect(digest.sha256 == nil && bytes.count == 64)
            let written = ContentDigest.fieldValue(.sha512, bytes.span)
            #expect(written == Array("sha-512=:\(text):".utf8))
        }
        let both = try parse("sha-256=:\(Self.sha256):, sha-512=:\(Self.sha512):")
        #expect(both.sha256 == first.sha256 && both.sha512?.count == 64)
        #expect(try parse("sha-512=:\(Self.sha512):,sha-256=:\(Self.sha256):") == both)
    }

    @Test("every digest in the field must match")
    func matches() throws {
        let both = try parse("sha-256=:\(Self.sha256):, sha-512=:\(Self.sha512):")
        let (short, long) = (try #require(both.sha256), try #require(both.sha512))
        #expect(both.matches { $0 == .sha256 ? short : long })
        #expect(!both.matches { $0 == .sha256 ? short : short })
        #expect(!both.matches { $0 == .sha256 ? long : long })
        #expect(!both.matches { _ in [] })
        let one = try parse("sha-256=:\(Self.sha256):, md5=:AA==:")
        #expect(one.matches { $0 == .sha256 ? short : [] })
        for place in short.indices {
            var other = short
            other[place] ^= 0x10
            #expect(!one.matches { _ in other })
        }
    }

    @Test("unknown algorithms are ignored and do not suffice")
    func unknown() throws {
        let expected = try parse("sha-256=:\(Self.sha256):")
        for text in ["md5=:AA==:, sha-256=:\(Self.sha256):", "sha-256=:\(Self.sha256):,crc32c=(1 2);x, sha=1, y"] {
            #expect(try parse(text) == expected)
        }
        for text in ["", "md5=:AA==:", "sha256=:\(Self.sha256):", "sha-384=:AA==:"] {
            #expect(fault(text) == .digestAlgorithms, "\(text)")
        }
        #expect(fault("SHA-256=:\(Self.sha256):") == .syntax)
    }

    @Test("a digest must have its algorithm's length")
    func lengths() {
        #expect(fault("sha-256=:\(Self.sha512):") == .digestLength)
        #expect(fault("sha-512=:\(Self.sha256):") == .digestLength)
        #expect(fault("sha-256=::") == .digestLength)
        #expect(fault("sha-256=:AAAA:") == .digestLength)
        #expect(fault("sha-256=:\(String(repeating: "A", count: 92)):") == .digestLength)
        #expect(fault("sha-256=:\(Self.sha256):, sha-512=:AAAA:") == .digestLength)
    }

    @Test("second spellings, other types, parameters and repetitions are refused")
    func refused() {
        #expect(fault("sha-256=:\(Self.sha256.dropLast()):") == .base64)
        #expect(fault("sha-256=:\(Self.sha256.dropLast(2))h=:") == .base64)
        #expect(fault("sha-256=\"\(Self.sha256)\"") == .notAByteSequence)
        #expect(fault("sha-256") == .notAByteSequence)
        #expect(fault("sha-256=(:\(Self.sha256):)") == .notAByteSequence)
        #expect(fault("sha-256=:\(Self.sha256):;a") == .parametersRefused)
        #expect(fault("sha-256=:\(Self.sha256):, sha-256=:\(Self.sha256):") == .algorithmRepeated)
        #expect(fault("sha-256=\(Self.sha256)") == .notAByteSequence)  // RFC 3230's form
    }

    @Test("a digest of the wrong length is not written")
    func writing() {
        for (algorithm, count) in [(ContentDigest.Algorithm.sha256, 31), (.sha256, 64), (.sha512, 32), (.sha512, 0)] {
            let bytes = [UInt8](repeating: 0, count: count)
            let written = ContentDigest.fieldValue(algorithm, bytes.span)
            #expect(written == nil)
        }
    }

    @Test("the comparison covers every byte")
    func comparison() {
        func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool { DigestComparison.isEqual(left.span, right.span) }
        let bytes = (0..<32).map { UInt8($0) }
        #expect(isEqual(bytes, bytes) && isEqual([], []))
        #expect(!isEqual(bytes, Array(bytes.dropLast())) && !isEqual([], bytes))
        for place in bytes.indices {
            var other = bytes
            other[place] ^= 1
            #expect(!isEqual(bytes, other))
        }
    }
}
