/// What the enrolment endpoints answer when they refuse: the one table.
public enum EnrolmentError: CaseIterable, Sendable {
    case badRequest
    case invalidRequest
    case integrityCheck
    case notFound
    case validation
    case server
    case temporarilyUnavailable

    /// One row of the table.
    public struct Row: Sendable {
        /// JSON member `error`. Never renamed.
        public let code: StaticString
        /// HTTP status.
        public let status: UInt16
        /// What the client is told, one sentence.
        public let sentence: StaticString
    }

    public var row: Row {
        switch self {
        case .badRequest:
            Row(
                code: "bad_request", status: 400,
                sentence: "The request is malformed, or has missing or unknown members.")
        case .invalidRequest:
            Row(code: "invalid_request", status: 403, sentence: "The request does not prove what it must.")
        case .integrityCheck:
            Row(
                code: "integrity_check_error", status: 403,
                sentence: "The device or app is below what is admitted here.")
        case .notFound:
            Row(code: "not_found", status: 404, sentence: "There is no such app instance: initialize it first.")
        case .validation:
            Row(code: "validation_error", status: 422, sentence: "A value is not of the form it must have.")
        case .server:
            Row(code: "server_error", status: 500, sentence: "The service failed: begin again with a new nonce.")
        case .temporarilyUnavailable:
            Row(
                code: "temporarily_unavailable", status: 503,
                sentence: "The service cannot answer now: try again later.")
        }
    }

    /// Whether the fault is ours: then the client is told no more than the sentence.
    public var isOurs: Bool { row.status >= 500 }
}
