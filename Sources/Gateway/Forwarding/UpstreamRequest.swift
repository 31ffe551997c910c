internal import Bytes
internal import Cryptography
internal import HTTP
internal import Registry
internal import RequestProof
internal import Telemetry
internal import Upstream
internal import Vocabulary

/// Writes the head of the upstream request from the parsed one. No byte of the client's framing, and no unchecked
/// field, is forwarded.
final class UpstreamRequest {
    private let policy: FieldPolicy
    /// Kept for its capacity.
    private var foreign: [UInt8] = []

    init(policy: FieldPolicy) {
        self.policy = policy
    }

    /// Returns whether the head has a field that is refused on every route.
    func refuses(_ head: RequestHead, _ bytes: Span<UInt8>) -> Bool {
        for index in head.fields.indices {
            let field = head.fields[index]
            if policy.refuses(field.nameRange.of(bytes), field.name) { return true }
        }
        return false
    }

    /// Writes the head.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`, none of whose fields is refused.
    ///   - client: The fields about the client.
    ///   - trace: Continued from the client's, or begun here.
    ///   - device: The device, where the route requires one.
    ///   - verdict: On a route that observes some devices.
    ///   - hasOnlyProof: Whether its signature fields contain only the proof.
    ///   - forwardsDeviceToken: Whether it has a device token that was verified and the upstream receives it.
    ///   - attested: The client on a route that requires client attestations.
    ///   - key: The key of a request for a WebSocket.
    /// - Returns: False if the head with the gateway's fields does not fit.
    func write(
        _ request: OutgoingRequest, _ head: RequestHead, _ bytes: Span<UInt8>, client: ClientFields,
        trace: TraceContext, device: DeviceFields?, verdict: RouteVerdict?, hasOnlyProof: Bool,
        forwardsDeviceToken: Bool, attested: AttestedClient?, key: WebSocketKey?, to carrier: UpstreamCarrier
    ) -> Bool {
        carrier.writeHead(
            request, path: head.path.of(bytes), query: head.query?.of(bytes), authority: head.authority.of(bytes)
        ) { output in
            appendFields(
                of: head, bytes, client: client, trace: trace, device: device, verdict: verdict,
                hasOnlyProof: hasOnlyProof, forwardsDeviceToken: forwardsDeviceToken, attested: attested, to: &output)
            if case .made(let key) = key { output.appendField("Sec-WebSocket-Key", key.span) }
            // TE concerns one connection only, so the gateway sends its own: gRPC services require it. Where trailers
            // are not forwarded, the field is omitted.
            if carrier.takesTrailers, head.acceptsTrailers { output.appendField("TE", "trailers") }
        }
    }

    /// Appends all fields except those of host, connection and framing.
    func appendFields(
        of head: RequestHead, _ bytes: Span<UInt8>, client: ClientFields, trace: TraceContext, device: DeviceFields?,
        verdict: RouteVerdict?, hasOnlyProof: Bool, forwardsDeviceToken: Bool = false, attested: AttestedClient? = nil,
        to output: inout ByteBuffer
    ) {
        for index in head.fields.indices {
            let field = head.fields[index]
            switch field.name {
            // Host is first and already written; the gateway writes its own traceparent.
            case .host, .traceparent: continue
            // tracestate belongs to a trace that is not continued (W3C Trace Context section 3.3). With CONNECT, the
            // key was not asked for (RFC 8441 section 5).
            case .secWebSocketKey where head.opensWebSocket: continue
            case .tracestate where !trace.isContinued: continue
            case .signature, .signatureInput:
                // The verifier has found that they contain only the proof.
                if !hasOnlyProof { appendForeignMembers(of: field, bytes, head, to: &output) }
                continue
            default: break
            }
            switch policy.verdict(field.nameRange.of(bytes), field.name) {
            case .forward:
                // A proof of possession is for the gateway alone.
                if attested != nil, ClientAttestations.isField(field, bytes) { continue }
                if !head.connection.drops(field, of: bytes) {
                    output.appendField(field, of: bytes)
                }
            case .strip, .refuse:
                if forwardsDeviceToken, DeviceTokens.isField(field, bytes) { output.appendField(field, of: bytes) }
            }
        }
        client.append(of: head, bytes, to: &output)
        trace.append(to: &output)
        device?.append(to: &output)
        verdict?.append(to: &output)
        if let attested {
            let id = attested.id
            output.appendField("Attest-Client", id.span)
        }
    }

    /// Appends the signature fields without the proof; signatures of others are forwarded.
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

/// What a service learns of the decision on a route that observes some devices: a structured field (RFC 8941).
enum RouteVerdict {
    case pass
    case wouldDeny(Denial)

    func append(to output: inout ByteBuffer) {
        switch self {
        case .pass: output.append("Attest-Verdict: pass\r\n")
        case .wouldDeny(let denial):
            output.append("Attest-Verdict: would-deny;code=")
            output.append(denial.row.code)
            output.append("\r\n")
        }
    }
}

/// The fields that describe the client to an upstream. Fields of these names from a client were stripped before.
struct ClientFields {
    /// The start of the Forwarded field's value. Nil if the field is not sent.
    let forwarded: [UInt8]?
    /// Nil for most upstreams.
    var others: Others?

    struct Others {
        let names: ForwardedNames
        /// The value of X-Forwarded-For. Empty if there is none.
        let address: [UInt8]
        /// The values of Client-Cert and Client-Cert-Chain. Empty if the field is not sent.
        var certificate: [UInt8] = []
        var chain: [UInt8] = []

        init(_ names: ForwardedNames, address: [UInt8]) {
            self.names = names
            self.address = address
        }
    }

    /// Appends the fields.
    ///
    /// - Parameter bytes: The bytes of `head`.
    func append(of head: RequestHead, _ bytes: Span<UInt8>, to output: inout ByteBuffer) {
        if let forwarded {
            output.append("Forwarded", ": ", forwarded.span, "")
            output.appendCanonicalAuthority(of: head, bytes)
            output.append("\"\r\n")
        }
        if let others { append(others, of: head, bytes, to: &output) }
    }

    private func append(
        _ others: Others, of head: RequestHead, _ bytes: Span<UInt8>, to output: inout ByteBuffer
    ) {
        if others.names.contains(.xForwardedFor), !others.address.isEmpty {
            output.appendField("X-Forwarded-For", others.address.span)
        }
        if others.names.contains(.xForwardedProto) { output.appendField("X-Forwarded-Proto", "https") }
        if others.names.contains(.xForwardedHost) {
            output.append("X-Forwarded-Host: ")
            output.appendCanonicalAuthority(of: head, bytes)
            output.append("\r\n")
        }
        if !others.certificate.isEmpty { output.appendField("Client-Cert", others.certificate.span) }
        if !others.chain.isEmpty { output.appendField("Client-Cert-Chain", others.chain.span) }
    }
}

/// The fields that describe the device to an upstream. Fields of these names from a client were stripped before.
struct DeviceFields {
    /// HMAC-SHA-256 of the key id with a key for this upstream only.
    let pseudonym: Digest256
    /// The app id as text.
    let app: [UInt8]
    let platform: Platform
    /// The counter of the proof; nil if the route requires none.
    let counter: UInt32?
    /// Further fields with their line ends. Empty for most routes.
    let statement: [UInt8]

    func append(to output: inout ByteBuffer) {
        output.append("Attest-Device: ")
        // Sixteen digits at a time: each of 32 bytes would cost a call.
        for start in stride(from: 0, to: 32, by: 8) {
            var octets: UInt64 = 0
            for index in start..<start + 8 { octets = octets << 8 | UInt64(pseudonym.span[index]) }
            output.append(hex: octets, digits: 16)
        }
        output.append("\r\nAttest-App: ")
        output.append(app)
        output.append("\r\nAttest-Platform: ")
        output.append(platform.rawValue)
        output.append("\r\n")
        if let counter { output.appendField("Attest-Counter", decimal: UInt64(counter)) }
        if !statement.isEmpty { output.append(statement) }
    }
}
