internal import EventLoop
internal import Glibc
public import HTTP

/// Why an upstream gave no complete response.
public enum UpstreamFailure: Error, Equatable, Sendable {
    /// No address of the server is known: its name could not be resolved.
    case unresolved
    /// No server accepted a connection; the last one asked did not for this reason.
    case unreachable(server: String, errno: Int32)
    /// The last one asked did not answer.
    case connectTimeout(server: String)
    /// The server did not prove to be the one that is meant, or refused us, or TLS failed later. The reason is for the log.
    case tls(server: String, reason: String)
    /// This process has no descriptor or memory left for a connection: no server was asked.
    case exhausted(errno: Int32)
    /// All connections the worker may have are in use, and so are the places to wait for one.
    case connectionLimit
    /// No connection became free in time.
    case waitingTimeout
    /// As many requests as the worker may have are under way or wait.
    case requestLimit
    /// The connection ended before the response was complete.
    case disconnected
    /// The response did not come, or stopped coming.
    case responseTimeout
    /// The response is not well-formed HTTP.
    case malformed(MessageFault)
    /// The upstream switched protocols without being asked to.
    case unexpectedUpgrade
    /// It switched protocols as it was asked, but its 101 is no valid answer to the WebSocket's handshake.
    case upgradeInvalid(WebSocketAnswerFault)
    /// It is to speak HTTP/2, and what it speaks is something else.
    case notHTTP2(server: String, HTTP2Absence)
    /// It is to speak HTTP/1.1, and has answered in HTTP/2.
    case answeredInHTTP2(server: String)
    /// It has refused the stream, or goes away, before it processed anything of the request (RFC 9113 section 8.7).
    case refused
    /// It has reset the stream.
    case reset(HTTP2ErrorCode)
    /// It has broken a rule of HTTP/2 that is the whole connection's.
    case http2(HTTP2Fault)
}

/// What a server did instead of beginning with SETTINGS (RFC 9113 section 3.4).
public enum HTTP2Absence: Equatable, Sendable {
    case saidOtherwise
    /// In the clear, where a server that expects TLS does so, with an alert or without a word.
    case ended
}

extension UpstreamFailure {
    /// A connection to a server that failed with this error number.
    static func connecting(to server: String, _ errno: Int32) -> UpstreamFailure {
        EventLoopError.isExhaustion(errno) ? .exhausted(errno: errno) : .unreachable(server: server, errno: errno)
    }

    /// Of two addresses of a server, where not one byte was sent to either, the failure that says more: the one that
    /// came about further on the way to a request, or else the first. Once it is repaired, the other one may prove
    /// harmless.
    func orFurther(_ later: UpstreamFailure) -> UpstreamFailure { later.progress > progress ? later : self }

    private var progress: Int {
        switch self {
        case .unresolved: 0
        case .unreachable(_, let errno) where errno != ECONNREFUSED: 1
        // Somebody was there to refuse.
        case .unreachable: 2
        case .connectTimeout: 3
        case .disconnected: 4
        case .tls: 5
        case .notHTTP2, .answeredInHTTP2: 6
        // These come without a connection, or after a request was sent.
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

        /// Whether a server has failed, not the gateway's own room.
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
    /// What happened, for logs.
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
