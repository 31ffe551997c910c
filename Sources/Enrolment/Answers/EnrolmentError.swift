/// What the enrolment endpoints answer when they refuse: the one table.
public enum EnrolmentError: CaseIterable, Sendable {
    case badRequest
    case invalidRequest
    case integrityCheck
    case osOutdated
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
        /// The message for the client, one sentence.
        public let sentence: StaticString
    }

    public var row: Row {
        switch self {
        case .badRequest:
            Row(
                code: "bad_request", status: 400,
                sentence: "The request is malformed, or has missing, unknown or duplicate members.")
        case .invalidRequest:
            Row(code: "invalid_request", status: 403, sentence: "The request lacks a valid proof.")
        case .integrityCheck:
            Row(
                code: "integrity_check_error", status: 403,
                sentence: "The device or app does not meet the requirements.")
        case .osOutdated:
            Row(
                code: "os_outdated", status: 403,
                sentence: "The device's system version is below the minimum: update the system and enrol again.")
        case .notFound:
            Row(code: "not_found", status: 404, sentence: "The app instance is unknown: initialize it first.")
        case .validation:
            Row(code: "validation_error", status: 422, sentence: "A value is malformed.")
        case .server:
            Row(code: "server_error", status: 500, sentence: "The service failed: start again with a new nonce.")
        case .temporarilyUnavailable:
            Row(
                code: "temporarily_unavailable", status: 503,
                sentence: "The service is not available: try again later.")
        }
    }

    /// Whether the fault is ours: the client then receives only the sentence.
    public var isOurs: Bool { row.status >= 500 }
}
