internal import HTTP
internal import RequestProof

/// The value of Sec-WebSocket-Key in a handshake to a service.
enum WebSocketKey {
    /// The client's, as it stands in its head.
    case sent(ByteRange)
    /// The gateway's own: HTTP/2 has no key (RFC 8441 section 5), and a service of HTTP/1.1 asks for one.
    case made([UInt8])

    /// 16 octets in base64 (RFC 6455 section 4.1).
    static func random() -> [UInt8] {
        var octets: [UInt8] = []
        for _ in 0..<16 { octets.append(.random(in: .min ... .max)) }
        var text: [UInt8] = []
        Base64.encode(octets.span, appendingTo: &text)
        return text
    }
}
