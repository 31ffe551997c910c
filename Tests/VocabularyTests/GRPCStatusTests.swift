import Testing
import Vocabulary

@Suite("gRPC status of denials")
struct GRPCStatusTests {
    /// http-grpc-status-mapping.md: what libraries make of an HTTP status by themselves.
    private static let mapping: [UInt16: GRPCStatus] = [
        400: .internalError, 401: .unauthenticated, 403: .permissionDenied, 404: .unimplemented, 429: .unavailable,
        502: .unavailable, 503: .unavailable, 504: .unavailable,
    ]
    /// What is UNKNOWN there.
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
