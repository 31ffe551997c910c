internal import Cryptography
internal import RequestProof

/// What a service answers to a WebSocket's key (RFC 6455 section 4.2.2). SHA-1 is what the RFC names; nothing is made safe by it.
enum WebSocketAccept {
    private static let identifier = Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)

    /// - Parameter key: as the client has sent it.
    static func value(for key: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        let digest = try library.sha1(of: key, identifier.span)
        var text: [UInt8] = []
        Base64.encode(digest.span, appendingTo: &text)
        return text
    }
}
