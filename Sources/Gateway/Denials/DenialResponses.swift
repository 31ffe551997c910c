internal import Bytes
internal import HTTP
internal import Telemetry
internal import Vocabulary

/// Responses to refused requests, prepared so that a refusal costs little.
struct DenialResponses {
    /// The body up to the end of the sentence, and from its quote up to the trace id, by the raw value of the denial.
    private let openings: [[UInt8]]
    private let middles: [[UInt8]]
    /// For gRPC: the fields up to the end of the sentence; empty for a denial without an HTTP answer.
    private let fields: [[UInt8]]

    private static let bodyEnd: StaticString = "\"}"
    private static let quote = UInt8(ascii: "\"")
    private static let violations: StaticString = ",\"violations\":["
    private static let traceIDLength = 32
    private static let missing: StaticString = " Missing: "
    private static let traceID: StaticString = " Trace: "

    /// Prepares the responses.
    ///
    /// - Parameter uriPrefix: The prefix of `error_uri`; the denial's code is appended.
    init(uriPrefix: String) {
        // Codes and sentences are literals of the table without characters that JSON escapes; a test checks that.
        openings = Denial.allCases.map { denial in
            Array("{\"error\":\"\(denial.row.code)\",\"error_description\":\"\(denial.row.sentence)".utf8)
        }
        middles = Denial.allCases.map { denial in
            Array(",\"error_uri\":\"\(uriPrefix)\(denial.row.code)\",\"trace_id\":\"".utf8)
        }
        // They have no characters that grpc-message encodes.
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
        let objection = refusal.objection.map(Self.length) ?? 0
        return UInt64(
            openings[place].count + component + objection + 1 + middles[place].count + Self.traceIDLength
                + Self.bodyEnd.utf8CodeUnitCount)
    }

    private static func length(of objection: PolicyObjection) -> Int {
        let codes = objection.violations
        let list = codes.reduce(violations.utf8CodeUnitCount + 1) { $0 + $1.utf8.count + 2 } + max(0, codes.count - 1)
        return list + (objection.reason.map { $0.utf8.count + 1 } ?? 0)
    }

    func append(_ refusal: Refusal, _ trace: TraceID, to body: inout ByteBuffer) {
        let place = Int(refusal.denial.rawValue)
        body.append(openings[place])
        if let component = refusal.component {
            // Token characters, which JSON does not escape.
            body.append(Self.missing)
            body.append(component)
            body.append(".")
        }
        if let reason = refusal.objection?.reason {
            body.append(" ")
            body.append(reason)
        }
        body.append(Self.quote)
        if let codes = refusal.objection?.violations {
            body.append(Self.violations)
            for (index, code) in codes.enumerated() {
                if index > 0 { body.append(",") }
                // Codes have no characters that JSON escapes.
                body.append(Self.quote)
                body.append(code)
                body.append(Self.quote)
            }
            body.append("]")
        }
        body.append(middles[place])
        body.append(hex: trace.high, digits: 16)
        body.append(hex: trace.low, digits: 16)
        body.append(Self.bodyEnd)
    }

    /// Appends the fields that a gRPC client receives instead of a body: status, code, and a message with the
    /// contents of the body.
    func appendFields(of refusal: Refusal, _ trace: TraceID, to output: inout ByteBuffer) {
        output.append(fields[Int(refusal.denial.rawValue)])
        if let component = refusal.component {
            output.append(Self.missing)
            for byte in component.utf8 { Self.append(messageByte: byte, to: &output) }
            output.append(".")
        }
        if let objection = refusal.objection {
            for text in [objection.reason, objection.violations.joined(separator: ", ")].compactMap(\.self)
            where !text.isEmpty {
                output.append(" ")
                for byte in text.utf8 { Self.append(messageByte: byte, to: &output) }
            }
        }
        output.append(Self.traceID)
        output.append(hex: trace.high, digits: 16)
        output.append(hex: trace.low, digits: 16)
        output.append("\r\n")
    }

    /// Encodes gRPC's Status-Message: printable ASCII is unchanged, except the percent sign, which components may
    /// contain.
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

/// Recognizes calls of gRPC: their clients do not read the content of a refusal, only its fields.
enum GRPCCall {
    private static let mediaType = Array("application/grpc".utf8)

    /// Returns whether a request is a call of gRPC.
    ///
    /// - Parameter bytes: The bytes of the head.
    static func isMeant(by head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        guard !head.opensWebSocket else { return false }
        // A request has at most one Content-Type.
        for field in head.fields where field.name == .contentType { return isMeant(by: field.valueRange.of(bytes)) }
        return false
    }

    /// Returns whether a media type is `application/grpc`, also with a message format (`+proto`) or parameters. A
    /// longer type with the same beginning is a different one: `application/grpc-web` has its status in the content,
    /// even over HTTP/2.
    static func isMeant(by contentType: Span<UInt8>) -> Bool {
        let length = mediaType.count
        guard contentType.count >= length, contentType.extracting(first: length).equals(lowercase: mediaType) else {
            return false
        }
        guard contentType.count > length else { return true }
        switch contentType[length] {
        case UInt8(ascii: "+"), UInt8(ascii: ";"), UInt8(ascii: " "), UInt8(ascii: "\t"): return true
        default: return false
        }
    }
}
