internal import Bytes
internal import HTTP
internal import RequestProof

/// Writes the head of the request to the upstream anew from the parsed one. No byte of the client's framing, and no
/// field that was not looked at, comes through.
final class UpstreamRequest {
    enum Outcome: Equatable {
        case written
        /// The head, with what the gateway adds, does not fit a buffer.
        case tooLarge
    }

    private let policy: FieldPolicy
    /// Kept for its room.
    private var foreign: [UInt8] = []

    init(policy: FieldPolicy) {
        self.policy = policy
    }

    /// Whether a field is there that is refused on every route.
    func refuses(_ head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        for index in head.fields.indices {
            let field = head.fields[index]
            if policy.refuses(field.nameRange.of(bytes), field.name) { return true }
        }
        return false
    }

    /// - Parameters:
    ///   - bytes: what the ranges of `head` refer to; none of its fields is refused.
    ///   - framing: of the content, as it is going to be sent.
    ///   - forwarded: the start of the Forwarded field's value.
    ///   - trace: continued from the client's, or begun here.
    ///   - device: whose request it is, where the route demands one.
    ///   - upgrade: of a request that asks for a WebSocket.
    ///   - output: an empty buffer.
    func write(
        _ method: Method, _ head: RequestHead, _ bytes: Span<UInt8>, framing: ContentFraming, forwarded: [UInt8],
        trace: TraceContext, device: DeviceFields?, upgrade: WebSocketKey? = nil, to output: inout ByteBuffer
    ) -> Outcome {
        output.append(method.name)
        output.append(" ")
        output.append(head.path.of(bytes))
        if let query = head.query {
            output.append("?")
            output.append(query.of(bytes))
        }
        output.append(" HTTP/1.1\r\n")
        output.appendField("Host", head.authority.of(bytes))
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            // The one stands first, already written; the other is written anew.
            case .host, .traceparent: continue
            // Of a trace that the request does not belong to (W3C Trace Context section 3.3).
            // One that nobody has asked for (RFC 8441 section 5).
            case .secWebSocketKey where head.opensWebSocket: continue
            case .tracestate where !trace.isContinued: continue
            case .signature, .signatureInput:
                appendForeignMembers(of: field, bytes, head, to: &output)
                continue
            default: break
            }
            switch policy.verdict(field.nameRange.of(bytes), field.name) {
            case .forward:
                if !head.connection.drops(field, of: bytes) {
                    output.appendField(field.nameRange.of(bytes), field.valueRange.of(bytes))
                }
            case .strip, .refuse: break
            }
        }
        output.append("Forwarded: ")
        output.append(forwarded)
        output.append(head.authority.of(bytes))
        output.append("\"\r\n")
        trace.append(to: &output)
        device?.append(to: &output)
        if let upgrade {
            if case .made(let key) = upgrade { output.appendField("Sec-WebSocket-Key", key.span) }
            output.appendField("Connection", "Upgrade")
            output.appendField("Upgrade", "websocket")
        }
        switch framing {
        case .length(let length): output.appendField("Content-Length", decimal: length)
        case .chunked: output.appendField("Transfer-Encoding", "chunked")
        case .none, .untilClose:
            // A method that usually has content says that there is none (RFC 9110 section 8.6).
            if method == .post || method == .put || method == .patch {
                output.appendField("Content-Length", decimal: 0)
            }
        }
        output.append("\r\n")
        guard !output.overflowed else {
            output.removeAll()
            return .tooLarge
        }
        return .written
    }

    /// Our own member of the signature fields goes no further; signatures of others do.
    private func appendForeignMembers(
        of field: HeaderField, _ bytes: Span<UInt8>, _ head: RequestHead, to output: inout ByteBuffer
    ) {
        guard !head.connection.drops(field, of: bytes) else { return }
        foreign.removeAll(keepingCapacity: true)
        ForeignMembers.append(of: field.valueRange.of(bytes), to: &foreign)
        guard !foreign.isEmpty else { return }
        let value = foreign
        output.appendField(field.nameRange.of(bytes), value.span)
    }
}
