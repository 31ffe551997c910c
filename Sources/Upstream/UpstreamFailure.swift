internal import EventLoop
internal import Glibc
public import HTTP

/// The reason why an upstream gave no complete response.
public enum UpstreamFailure: Error, Equatable, Sendable {
    /// No address of the server is known: its name could not be resolved.
    case unresolved
    /// No server accepted a connection. The reason is that of the last attempt.
    case unreachable(server: String, errno: Int32)
    /// The last server tried did not answer.
    case connectTimeout(server: String)
    /// The server did not prove its identity, or refused ours, or TLS failed later. The reason is for the log.
    case tls(server: String, reason: String)
    /// This process has no descriptor or memory left for a connection. No server was contacted.
    case exhausted(errno: Int32)
    /// All connections of the worker are in use, and so are the places to wait for one.
    case connectionLimit
    /// No connection became free in time.
    case waitingTimeout
    /// The maximum number of requests of the worker is in flight or waiting.
    case requestLimit
    /// The connection ended before the response was complete.
    case disconnected
    /// The response did not arrive, or stopped arriving.
    case responseTimeout
    /// The response is not well-formed HTTP.
    case malformed(MessageFault)
    /// The upstream switched protocols without a request for it.
    case unexpectedUpgrade
    /// The upstream switched protocols as requested, but its 101 is no valid response to the WebSocket's handshake.
    case upgradeInvalid(WebSocketAnswerFault)
    /// The server does not speak the configured HTTP/2.
    case notHTTP2(server: String, HTTP2Absence)
    /// The server answered in HTTP/2 instead of the configured HTTP/1.1.
    case answeredInHTTP2(server: String)
    /// The server has refused the stream, or goes away, before it processed any of the request (RFC 9113 section 8.7).
    case refused
    /// The server has reset the stream.
    case reset(HTTP2ErrorCode)
    /// The server has broken a rule of HTTP/2 for the whole connection.
    case http2(HTTP2Fault)
}

/// The behaviour of a server that does not begin with SETTINGS (RFC 9113 section 3.4).
public enum HTTP2Absence: Equatable, Sendable {
    case saidOtherwise
    /// Without TLS, a server that expects TLS ends the connection, with an alert or silently.
    case ended
}

extension UpstreamFailure {
    /// Returns the failure for the error number of an attempt to connect.
    static func connecting(to server: String, _ errno: Int32) -> UpstreamFailure {
        EventLoopError.isExhaustion(errno) ? .exhausted(errno: errno) : .unreachable(server: server, errno: errno)
    }

    /// Whether the backlog of the server's Unix socket is full (unix(7)): it serves, and cannot follow. TCP would wait.
    public var isBacklogFull: Bool {
        if case .unreachable(_, EAGAIN) = self { true } else { false }
    }

    /// Returns the more significant failure of two addresses of a server, without a byte sent to either. It is the one
    /// further on the way to a request, or the first of equals. After its repair, the other one may prove harmless.
    func orFurther(_ later: UpstreamFailure) -> UpstreamFailure { later.progress > progress ? later : self }

    private var progress: Int {
        switch self {
        case .unresolved: 0
        case .unreachable(_, let errno) where errno != ECONNREFUSED: 1
        // A host was there to refuse.
        case .unreachable: 2
        case .connectTimeout: 3
        case .disconnected: 4
        case .tls: 5
        case .notHTTP2, .answeredInHTTP2: 6
        // These occur without a connection, or after a request was sent.
        case .exhausted, .connectionLimit, .waitingTimeout, .requestLimit, .responseTimeout, .malformed,
            .unexpectedUpgrade, .upgradeInvalid, .refused, .reset, .http2:
            7
        }
    }

    /// The classes of failures in metrics.
    public enum Kind: Int, CaseIterable, Sendable {
        case unresolved
        case unreachable
        case connectTimeout
        case tls
        case exhausted
        case connectionLimit
        case waitingTimeout
        case requestLimit
        case disconnected
        case responseTimeout
        case malformed
        case unexpectedUpgrade
        case upgradeInvalid
        case notHTTP2
        case refused
        case reset
        case http2

        public var name: String {
            switch self {
            case .unresolved: "unresolved"
            case .unreachable: "unreachable"
            case .connectTimeout: "connect_timeout"
            case .tls: "tls"
            case .exhausted: "exhausted"
            case .connectionLimit: "connection_limit"
            case .waitingTimeout: "waiting_timeout"
            case .requestLimit: "request_limit"
            case .disconnected: "disconnected"
            case .responseTimeout: "response_timeout"
            case .malformed: "malformed"
            case .unexpectedUpgrade: "unexpected_upgrade"
            case .upgradeInvalid: "upgrade_invalid"
            case .notHTTP2: "not_http2"
            case .refused: "refused"
            case .reset: "reset"
            case .http2: "http2"
            }
        }

        /// Whether a server has failed, and not the gateway's own capacity.
        public var isServers: Bool {
            switch self {
            case .exhausted, .connectionLimit, .waitingTimeout, .requestLimit: false
            case .unresolved, .unreachable, .connectTimeout, .tls, .disconnected, .responseTimeout, .malformed,
                .unexpectedUpgrade, .upgradeInvalid, .notHTTP2, .refused, .reset, .http2:
                true
            }
        }
    }

    public var kind: Kind {
        switch self {
        case .unresolved: .unresolved
        case .unreachable: .unreachable
        case .connectTimeout: .connectTimeout
        case .tls: .tls
        case .exhausted: .exhausted
        case .connectionLimit: .connectionLimit
        case .waitingTimeout: .waitingTimeout
        case .requestLimit: .requestLimit
        case .disconnected: .disconnected
        case .responseTimeout: .responseTimeout
        case .malformed, .answeredInHTTP2: .malformed
        case .unexpectedUpgrade: .unexpectedUpgrade
        case .upgradeInvalid: .upgradeInvalid
        case .notHTTP2: .notHTTP2
        case .refused: .refused
        case .reset: .reset
        case .http2: .http2
        }
    }
}

extension UpstreamFailure {
    /// The text for logs.
    public var text: String {
        switch self {
        case .unresolved: "the upstream has no known address: its name could not be resolved"
        case .unreachable(let server, let errno): "connecting to \(server) failed: \(EventLoopError.text(of: errno))"
        case .connectTimeout(let server): "connecting to \(server) timed out"
        case .tls(let server, let reason): "TLS to \(server): \(reason)"
        case .exhausted(let errno): "no connection could be opened: \(EventLoopError.text(of: errno))"
        case .connectionLimit: "all connections to the upstream are in use, and the queue is full"
        case .waitingTimeout: "no connection to the upstream became available in time"
        case .requestLimit: "the upstream's limit of requests in flight is reached"
        case .disconnected: "the upstream closed the connection"
        case .responseTimeout: "the upstream did not respond in time"
        case .malformed(let fault): "malformed response: \(fault.reason)"
        case .unexpectedUpgrade: "the upstream switched protocols without a request"
        case .notHTTP2(let server, .saidOtherwise): "\(server) does not support HTTP/2: its first frame is not SETTINGS"
        case .notHTTP2(let server, .ended):
            "\(server) does not support HTTP/2: it closed the connection before SETTINGS (does it expect TLS?)"
        case .answeredInHTTP2(let server): "\(server) answered in HTTP/2: set `protocol: h2`"
        case .refused: "the upstream has not processed the request (refused stream or GOAWAY)"
        case .reset(let code): "the upstream reset the stream: \(code.reason)"
        case .http2(let fault): "the upstream violated HTTP/2: \(fault.reason)"
        case .upgradeInvalid(let fault): "the upstream's 101 does not complete the handshake: \(fault.reason)"
        }
    }
}
