internal import Bytes
internal import HTTP
internal import RequestProof
internal import Upstream

/// Writes the head of the upstream request from the parsed one. No byte of the client's framing, and no field that was
/// not checked, comes through.
final class UpstreamRequest {
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
    ///   - forwarded: the start of the Forwarded field's value.
    ///   - trace: continued from the client's, or begun here.
    ///   - device: whose request it is, where the route demands one.
    ///   - hasOnlyProof: whether its signature fields are known to hold nothing but the proof.
    ///   - key: of a request that asks for a WebSocket.
    /// - Returns: false if the head, with what the gateway adds, does not fit.
    func write(
        _ request: OutgoingRequest, _ head: RequestHead, _ bytes: Span<UInt8>, forwarded: [UInt8],
        trace: TraceContext, device: DeviceFields?, hasOnlyProof: Bool, key: WebSocketKey?, to carrier: UpstreamCarrier
    ) -> Bool {
        carrier.writeHead(
            request, path: head.path.of(bytes), query: head.query?.of(bytes), authority: head.authority.of(bytes)
        ) { output in
            appendFields(
                of: head, bytes, forwarded: forwarded, trace: trace, device: device, hasOnlyProof: hasOnlyProof,
                to: &output)
            if case .made(let key) = key { output.appendField("Sec-WebSocket-Key", key.span) }
            // TE concerns one connection only, so the gateway sends its own: gRPC services insist on it. Where trailers
            // are not forwarded, the field is left out.
            if carrier.takesTrailers, head.acceptsTrailers { output.appendField("TE", "trailers") }
        }
    }

    /// All fields but those of host, connection and framing.
    func appendFields(
        of head: RequestHead, _ bytes: Span<UInt8>, forwarded: [UInt8], trace: TraceContext, device: DeviceFields?,
        hasOnlyProof: Bool, to output: inout ByteBuffer
    ) {
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            // Host stands first, already written; the gateway writes its own traceparent.
            case .host, .traceparent: continue
            // Of a trace that the request does not belong to (W3C Trace Context section 3.3).
            // One that nobody has asked for (RFC 8441 section 5).
            case .secWebSocketKey where head.opensWebSocket: continue
            case .tracestate where !trace.isContinued: continue
            case .signature, .signatureInput:
                // As the verifier has found: they need not be read again.
                if !hasOnlyProof { appendForeignMembers(of: field, bytes, head, to: &output) }
                continue
            default: break
            }
            switch policy.verdict(field.nameRange.of(bytes), field.name) {
            case .forward:
                if !head.connection.drops(field, of: bytes) {
                    output.appendField(field, of: bytes)
                }
            case .strip, .refuse: break
            }
        }
        output.append("Forwarded", ": ", forwarded.span, "")
        output.appendCanonicalAuthority(of: head, bytes)
        output.append("\"\r\n")
        trace.append(to: &output)
        device?.append(to: &output)
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
