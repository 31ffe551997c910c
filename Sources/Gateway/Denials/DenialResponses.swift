internal import Bytes
internal import Vocabulary

/// The answers to refused requests, prepared so that refusing costs little.
struct DenialResponses {
    /// By the raw value of the denial: the body up to the end of the sentence, and from there up to the trace id.
    private let openings: [[UInt8]]
    private let middles: [[UInt8]]

    private static let bodyEnd: StaticString = "\"}"
    private static let traceIDLength = 32
    private static let missing: StaticString = " Missing: "

    /// - Parameter uriPrefix: of `error_uri`; the denial's code is appended.
    init(uriPrefix: String) {
        // Codes and sentences are literals of the table, without anything JSON would escape; a test checks that.
        openings = Denial.allCases.map { denial in
            Array("{\"error\":\"\(denial.row.code)\",\"error_description\":\"\(denial.row.sentence)".utf8)
        }
        middles = Denial.allCases.map { denial in
            Array("\",\"error_uri\":\"\(uriPrefix)\(denial.row.code)\",\"trace_id\":\"".utf8)
        }
    }

    func contentLength(of refusal: Refusal) -> UInt64 {
        let place = Int(refusal.denial.rawValue)
        let component = refusal.component.map { Self.missing.utf8CodeUnitCount + $0.utf8.count + 1 } ?? 0
        return UInt64(
            openings[place].count + component + middles[place].count + Self.traceIDLength
                + Self.bodyEnd.utf8CodeUnitCount)
    }

    func append(_ refusal: Refusal, _ trace: TraceID, to body: inout ByteBuffer) {
        let place = Int(refusal.denial.rawValue)
        body.append(openings[place])
        if let component = refusal.component {
            // Token characters, none of which JSON would escape.
            body.append(Self.missing)
            body.append(component)
            body.append(".")
        }
        body.append(middles[place])
        body.append(hex: trace.high, digits: 16)
        body.append(hex: trace.low, digits: 16)
        body.append(Self.bodyEnd)
    }
}
