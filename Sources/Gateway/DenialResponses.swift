internal import Vocabulary

/// The answers to refused requests, prepared so that refusing costs little.
struct DenialResponses {
    /// By the raw value of the denial: the body up to the trace id.
    private let bodies: [[UInt8]]

    /// Behind the trace id.
    static let bodyEnd: StaticString = "\"}"
    static let traceIDLength = 32

    /// - Parameter uriPrefix: of `error_uri`; the denial's code is appended.
    init(uriPrefix: String) {
        bodies = Denial.allCases.map { denial in
            let row = denial.row
            // Codes and sentences are literals of the table, without anything JSON would escape; a test checks that.
            let text =
                "{\"error\":\"\(row.code)\",\"error_description\":\"\(row.sentence)\","
                + "\"error_uri\":\"\(uriPrefix)\(row.code)\",\"trace_id\":\""
            return Array(text.utf8)
        }
    }

    func body(of denial: Denial) -> [UInt8] { bodies[Int(denial.rawValue)] }

    func contentLength(of denial: Denial) -> UInt64 {
        UInt64(bodies[Int(denial.rawValue)].count + Self.traceIDLength + Self.bodyEnd.utf8CodeUnitCount)
    }
}
