import Testing
import Vocabulary

@Suite("The denial table")
struct DenialTests {
    @Test("a code has one fault, and one row for each kind of answer", arguments: Denial.allCases)
    func codesAreSnakeCase(_ denial: Denial) {
        let code = String(describing: denial.row.code)
        #expect(code.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") })
        let twins = Denial.allCases.filter { $0 != denial && String(describing: $0.row.code) == code }
        // Only a code with several answers may stand in several rows.
        #expect(twins.allSatisfy { $0.row.answer != denial.row.answer })
        #expect(twins.allSatisfy { $0.row.fault == denial.row.fault })
    }

    @Test("codes and sentences need no escaping in JSON or in gRPC messages", arguments: Denial.allCases)
    func needNoEscape(_ denial: Denial) {
        let text = String(describing: denial.row.code) + String(describing: denial.row.sentence)
        #expect(
            text.utf8.allSatisfy { (0x20..<0x7f).contains($0) && !"\"\\%".utf8.contains($0) })
    }

    @Test("a denial's retry is unknown exactly where an upstream may have acted")
    func retries() {
        for denial in Denial.allCases {
            let isSpent = denial == .counterReplayed || denial == .counterLate
            let isAnswered = denial == .responseNotTaken
            // With the connection everything ends that was under way on it.
            let isConnection = denial.row.answer == .goAway
            // Found in the middle of a request's content too.
            let isError = denial == .internalError
            let mayHaveActed = denial.row.fault == .upstream || isSpent || isAnswered || isConnection || isError
            #expect((denial.row.retry == .unknown) == mayHaveActed, "\(denial)")
        }
    }

    @Test("what a new proof or enrolment can repair is 401, and nothing else is")
    func repairable() {
        let repairable: Set<Denial> = [
            .deviceUnknown, .proofRequired, .proofMalformed, .challengeRequired, .proofStale, .proofIncomplete,
            .proofInvalid, .counterReplayed, .counterLate,
        ]
        #expect(Set(Denial.allCases.filter(\.asksForProof)) == repairable)
    }
}

@Suite("Key ids")
struct KeyIDTests {
    @Test("exactly 32 bytes make a key id, in their order")
    func bytes() throws {
        let bytes = (0..<32).map { UInt8($0 * 7 & 0xff) }
        let id = try #require(keyID(bytes))
        #expect(id.bytes == bytes)
        #expect(id.description.hasPrefix("00070e15"))
        for count in [0, 31, 33, 64] {
            #expect(keyID([UInt8](repeating: 1, count: count)) == nil)
        }
    }

    @Test("key ids that differ in one bit differ")
    func equality() throws {
        let bytes = [UInt8](repeating: 0xa5, count: 32)
        let id = try #require(keyID(bytes))
        for bit in 0..<256 {
            var other = bytes
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(keyID(other) != id)
        }
    }

    private func keyID(_ bytes: [UInt8]) -> KeyID? { KeyID(digest: bytes.span) }
}
