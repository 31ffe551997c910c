import Testing
import Vocabulary

@Suite("The denial table")
struct DenialTests {
    @Test("a code has one fault, and one row for each kind of answer", arguments: Denial.allCases)
    func codesAreSnakeCase(_ denial: Denial) {
        let code = String(describing: denial.row.code)
        #expect(code.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == UInt8(ascii: "_") })
        let twins = Denial.allCases.filter { $0 != denial && String(describing: $0.row.code) == code }
        // Only a code with several answers may have several rows.
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
            // The end of the connection ends everything in-flight on it.
            let isConnection = denial.row.answer == .goAway
            // It may also occur within a request's content.
            let isError = denial == .internalError
            let mayHaveActed = denial.row.fault == .upstream || isSpent || isAnswered || isConnection || isError
            #expect((denial.row.retry == .unknown) == mayHaveActed, "\(denial)")
        }
    }

    @Test("what a new proof, token or enrolment can repair is 401, and nothing else is")
    func repairable() {
        let repairable: Set<Denial> = [
            .deviceUnknown, .deviceTokenRequired, .deviceTokenInvalid, .proofRequired, .proofMalformed,
            .challengeRequired, .proofStale, .proofIncomplete, .proofInvalid, .counterReplayed, .counterLate,
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
            // Only the first eight bytes are hashed.
            #expect(Set([id, keyID(other)]).count == 2)
        }
    }

    private func keyID(_ bytes: [UInt8]) -> KeyID? { KeyID(digest: bytes.span) }
}

@Suite("gRPC status of denials")
struct GRPCStatusTests {
    /// The mapping of HTTP statuses in libraries, from http-grpc-status-mapping.md.
    private static let mapping: [UInt16: GRPCStatus] = [
        400: .internalError, 401: .unauthenticated, 403: .permissionDenied, 404: .unimplemented, 429: .unavailable,
        502: .unavailable, 503: .unavailable, 504: .unavailable,
    ]
    /// The statuses that are UNKNOWN there.
    private static let others: [UInt16: GRPCStatus] = [
        405: .unimplemented, 408: .deadlineExceeded, 413: .resourceExhausted, 414: .resourceExhausted,
        421: .failedPrecondition, 426: .failedPrecondition, 431: .resourceExhausted, 500: .internalError,
    ]

    @Test("the gRPC status is the one that libraries derive from the HTTP status", arguments: Denial.allCases)
    func agreesWithTheMapping(_ denial: Denial) throws {
        guard let status = denial.status else {
            #expect(denial.grpcStatus == nil, "nothing is said by HTTP")
            return
        }
        let expected = try #require(Self.mapping[status] ?? Self.others[status])
        #expect(denial.grpcStatus == expected)
    }

    @Test("gRPC statuses have gRPC's names and numbers")
    func namesAndNumbers() {
        // statuscodes.md.
        let codes = [
            "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
            "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
            "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
        ]
        for status in Denial.allCases.compactMap(\.grpcStatus) {
            #expect(codes[Int(status.rawValue) - 1] == status.name)
        }
    }
}
