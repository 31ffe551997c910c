internal import Cryptography
internal import Encoding
internal import HTTP
internal import Registry
internal import Server
internal import Vocabulary

/// The holder of a tunnel: the device with any of its certificates, or without a device the client.
enum TunnelHolder: Hashable {
    case device(DeviceID)
    /// `ServerConnection.clientKey`.
    case client(Int)
}

/// The place of a tunnel, open or about to open. It counts against the limits of its holder, the worker and the
/// upstream.
struct TunnelPlace {
    let holder: TunnelHolder
    /// The index in the configuration.
    let upstream: Int
}

/// The limits of tunnels.
package struct TunnelLimits: Equatable, Sendable {
    /// Per worker.
    let worker: Int
    /// Per device, or per client without a device, for all workers together.
    let device: Int

    package init(worker: Int, device: Int) {
        self.worker = worker
        self.device = device
    }
}

/// The cause of a tunnel's end, for log and metrics.
enum TunnelEnd: Int, CaseIterable {
    /// The client, in order: with FIN, with or without close_notify.
    case client
    /// The service, in order.
    case service
    /// The connection to the client broke.
    case clientLost
    /// The connection to the service broke, or the service does not read. Over TLS, an end without close_notify is a
    /// break.
    case serviceLost
    /// The idle timeout.
    case idle
    /// The maximum life.
    case life
    /// The client is no longer admitted, or does not read: the denial says which.
    case denied
    /// The gateway, or the tunnel's generation, ends.
    case shutdown

    var name: StaticString {
        switch self {
        case .client: "client"
        case .service: "service"
        case .clientLost: "client_lost"
        case .serviceLost: "service_lost"
        case .idle: "idle"
        case .life: "life"
        case .denied: "denied"
        case .shutdown: "shutdown"
        }
    }
}

/// The value of Sec-WebSocket-Key in a handshake to a service.
enum WebSocketKey {
    /// The client's key, as a range of its head.
    case sent(ByteRange)
    /// The gateway's own key: HTTP/2 has none (RFC 8441 section 5), and a service of HTTP/1.1 needs one.
    case made([UInt8])

    /// Returns 16 random bytes in base64 (RFC 6455 section 4.1).
    static func random() -> [UInt8] {
        var octets: [UInt8] = []
        for _ in 0..<16 { octets.append(.random(in: .min ... .max)) }
        var text: [UInt8] = []
        Base64.encode(octets.span, appendingTo: &text)
        return text
    }
}

/// The Sec-WebSocket-Accept of a service (RFC 6455 section 4.2.2). The RFC uses SHA-1; security does not depend on
/// it.
enum WebSocketAccept {
    private static let identifier = Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)

    /// Returns the value.
    ///
    /// - Parameter key: The key as the client sent it.
    static func value(for key: Span<UInt8>, _ library: LibraryContext) throws(CryptographyError) -> [UInt8] {
        let digest = try library.sha1(of: key, identifier.span)
        var text: [UInt8] = []
        Base64.encode(digest.span, appendingTo: &text)
        return text
    }
}
