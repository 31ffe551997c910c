public import HTTP
public import TLS

/// The code that serves the requests of a server: one object per worker, subclassed by each role.
open class Application {
    public init() {}

    /// Returns an exchange for the connection. It serves one request after the other: all requests of HTTP/1.1, or
    /// those of one stream object of HTTP/2.
    open func makeExchange(for connection: ServerConnection) -> Exchange { Exchange(connection: connection) }

    /// Decides about an accepted connection. Nothing of it has been read, except the header of a trusted proxy.
    ///
    /// - Returns: False to close it immediately. If true, `connectionClosed` follows when it ends.
    open func admits(_ connection: ServerConnection) -> Bool { true }

    /// Called with the header of a trusted proxy; `admits` follows.
    ///
    /// - Parameter hasSource: Whether the header names a client, whose address the connection has from now on.
    open func proxyHeaderRead(_ connection: ServerConnection, hasSource: Bool) {}

    /// Returns whether a request may begin on a stream of HTTP/2. If not, the stream is reset.
    open func admitsStream(on connection: ServerConnection) -> Bool { true }
    /// Called when a request begins on a stream of HTTP/2. `streamEnded` follows when the request, or the WebSocket
    /// it became, has ended.
    open func streamBegan(on connection: ServerConnection) {}
    open func streamEnded(on connection: ServerConnection) {}

    /// Called when an admitted connection has ended.
    open func connectionClosed(_ connection: ServerConnection) {}

    /// Called when a connection without TLS begins.
    open func plainConnectionBegan(_ connection: ServerConnection) {}

    /// Called when a TLS handshake is complete and the client's certificate, if it has presented one, is verified, in
    /// this handshake or an earlier one.
    open func handshakeCompleted(_ connection: ServerConnection, _ recognition: TLSStream.Recognition) {}

    /// Returns whether the client of a completed handshake may have one more connection. If not, the connection ends.
    open func admitsClient(of connection: ServerConnection) -> Bool { true }

    /// Called when no connection can be accepted for a moment: descriptors or memory are exhausted.
    ///
    /// - Parameter errno: The kernel's error.
    open func acceptingPaused(errno: Int32) {}

    /// Called when a connection ends without an answer, mostly before its first request. Also if a client left during
    /// the handshake.
    open func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {}
}

/// What an application has granted a connection, step by step.
public enum ConnectionStanding: Int, Comparable, Sendable {
    case none
    /// The application learns when the connection ends.
    case admitted
    /// The client has authenticated as the application demands.
    case known
    /// The application counts the connection for its client.
    case counted

    public static func < (left: ConnectionStanding, right: ConnectionStanding) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// The reason why a connection ends without an HTTP answer.
public enum ConnectionRefusal: Sendable {
    /// The listener does not admit the peer's user or network.
    case peer
    /// The worker has its maximum of connections.
    case limit
    /// The listener has its maximum of connections.
    case listenerLimit
    /// The application admits no more of this address.
    case sourceLimit
    /// The application admits no more of this client.
    case clientLimit
    /// The memory budget of the process is nearly exhausted.
    case memory
    /// The number of handshakes in flight is at its limit, and this is the oldest of them.
    case handshakeLimit
    /// The header of a trusted proxy is missing or invalid. TLS has not begun.
    case proxyHeader(ProxyHeaderFault)
    case handshake(TLSFailure)
    case handshakeTimeout
    /// The client certificate expired while the connection was open.
    case certificateExpired
    /// The configuration loaded since the connection was accepted no longer admits the client.
    case certificateBarred(ClientAdmission.KeyRejection)
    /// The client broke a rule of HTTP/2 that concerns the whole connection, and was notified with GOAWAY.
    case http2(HTTP2Fault)
}

/// What an application keeps with a connection for all its requests.
open class ConnectionMemory {
    public init() {}
}
