internal import Bytes
internal import Vocabulary

/// The answers to refused requests, prepared so that refusing costs little.
struct DenialResponses {
    /// By the raw value of the denial: the body up to the end of the sentence, and from there up to the trace id.
    private let openings: [[UInt8]]
    private let middles: [[UInt8]]
    /// The same for calls of gRPC: fields up to the end of the sentence; empty for what is not answered by HTTP.
    private let fields: [[UInt8]]

    private static let bodyEnd: StaticString = "\"}"
    private static let traceIDLength = 32
    private static let missing: StaticString = " Missing: "
    private static let traceID: StaticString = " Trace: "

    /// - Parameter uriPrefix: of `error_uri`; the denial's code is appended.
    init(uriPrefix: String) {
        // Codes and sentences are literals of the table, without anything JSON would escape; a test checks that.
        openings = Denial.allCases.map { denial in
            Array("{\"error\":\"\(denial.row.code)\",\"error_description\":\"\(denial.row.sentence)".utf8)
        }
        middles = Denial.allCases.map { denial in
            Array("\",\"error_uri\":\"\(uriPrefix)\(denial.row.code)\",\"trace_id\":\"".utf8)
        }
        // Nor anything that grpc-message would encode.
        fields = Denial.allCases.map { denial in
            guard let status = denial.grpcStatus else { return [] }
            let (code, sentence) = (denial.row.code, denial.row.sentence)
            return Array(
                "grpc-status: \(status.rawValue)\r\nAttest-Denial: \(code)\r\ngrpc-message: \(code): \(sentence)".utf8)
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
    /// Appends the fields that a gRPC client receives in place of a body: status, code, and a message with everything
    /// that a body has.
    func appendFields(of refusal: Refusal, _ trace: TraceID, to output: inout ByteBuffer) {
        output.append(fields[Int(refusal.denial.rawValue)])
        if let component = refusal.component {
            output.append(Self.missing)
            for byte in component.utf8 { Self.append(messageByte: byte, to: &output) }
            output.append(".")
        }
        output.append(Self.traceID)
        output.append(hex: trace.high, digits: 16)
        output.append(hex: trace.low, digits: 16)
        output.append("\r\n")
    }

    /// gRPC's Status-Message: printable ASCII stands for itself, but for the percent sign, which names of components may have.
    private static func append(messageByte byte: UInt8, to output: inout ByteBuffer) {
        if byte >= 0x20, byte < 0x7f, byte != UInt8(ascii: "%") { return output.append(byte) }
        output.append(UInt8(ascii: "%"))
        output.append(hexadecimal(byte >> 4))
        output.append(hexadecimal(byte & 15))
    }

    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10
    }
}
