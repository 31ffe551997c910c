public import HTTP
public import TLS

/// What a server does with its requests. One per worker; subclassed by each role.
open class Application {
    public init() {}

    /// An exchange, which serves requests of the connection one after the other: all of them with HTTP/1.1, with HTTP/2 as many as
    /// are under way at once have one each.
    open func makeExchange(for connection: ServerConnection) -> Exchange { Exchange(connection: connection) }

    /// A connection was accepted; nothing of it has been read but the header of a trusted proxy, where it has one.
    ///
    /// - Returns: false to close it at once. If true, `connectionClosed` follows when it ends.
    open func admits(_ connection: ServerConnection) -> Bool { true }

    /// The header of a trusted proxy was read; `admits` follows.
    ///
    /// - Parameter hasSource: whether it names a client, whose address the connection has from now on.
    open func proxyHeaderRead(_ connection: ServerConnection, hasSource: Bool) {}

    /// Whether a request may begin on a stream of HTTP/2. If not, the stream is reset.
    open func admitsStream(on connection: ServerConnection) -> Bool { true }
    /// A request has begun on a stream of HTTP/2; `streamEnded` follows, when the request, or the WebSocket it became, has ended.
    open func streamBegan(on connection: ServerConnection) {}
    open func streamEnded(on connection: ServerConnection) {}

    /// A connection that was admitted has ended.
    open func connectionClosed(_ connection: ServerConnection) {}

    /// A TLS handshake is complete, and its client's certificate verified, in this or in an earlier one.
    open func handshakeCompleted(_ connection: ServerConnection, _ recognition: TLSStream.Recognition) {}

    /// Whether the client of a completed handshake may have one more connection. If not, it is ended.
    open func admitsClient(of connection: ServerConnection) -> Bool { true }

    /// No connection can be accepted for a moment: descriptors or memory have run out.
    ///
    /// - Parameter errno: what the kernel said.
    open func acceptingPaused(errno: Int32) {}

    /// A connection is ended without an answer, most of them before their first request; also if a client merely left during
    /// the handshake.
    open func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {}
}

/// Why a connection is ended without an HTTP answer.
public enum ConnectionRefusal: Sendable {
    /// The worker serves as many connections as it may.
    case limit
    /// The listener has as many connections as it may.
    case listenerLimit
    /// The application admits no more of this address.
    case sourceLimit
    /// The application admits no more of this client.
    case clientLimit
    /// The process is about to use up its memory budget.
    case memory
    /// The number of handshakes under way is at its limit, and this is the oldest of them.
    case handshakeLimit
    /// A trusted proxy's connection without a valid header: TLS has not begun.
    case proxyHeader(ProxyHeaderFault)
    case handshake(TLSFailure)
    case handshakeTimeout
    /// The client certificate expired while the connection was open.
    case certificateExpired
    /// The client is not let in any more by what has been loaded since its connection was accepted.
    case certificateBarred(ClientAdmission.KeyRejection)
    /// The client broke a rule of HTTP/2 that concerns the whole connection, and was notified with GOAWAY.
    case http2(HTTP2Fault)
}

/// What an application keeps with a connection, for all requests on it.
open class ConnectionMemory {
    public init() {}
}
