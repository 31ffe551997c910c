public import HTTP

/// Why an upstream gave no complete response.
public enum UpstreamFailure: Error, Equatable, Sendable {
    /// No address of the server is known: its name could not be resolved.
    case unresolved
    /// No server accepted a connection.
    case unreachable(errno: Int32)
    case connectTimeout
    /// The server did not prove to be the one that is meant, or refused us, or TLS failed later. The reason is for the log.
    case tls(server: String, reason: String)
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
}

extension UpstreamFailure {
    /// What failures are told apart by in metrics.
    public enum Kind: Int, CaseIterable, Sendable {
        case unresolved
        case unreachable
        case connectTimeout
        case tls
        case connectionLimit
        case waitingTimeout
        case requestLimit
        case disconnected
        case responseTimeout
        case malformed
        case unexpectedUpgrade
        case upgradeInvalid

        public var name: String {
            switch self {
            case .unresolved: "unresolved"
            case .unreachable: "unreachable"
            case .connectTimeout: "connect_timeout"
            case .tls: "tls"
            case .connectionLimit: "connection_limit"
            case .waitingTimeout: "waiting_timeout"
            case .requestLimit: "request_limit"
            case .disconnected: "disconnected"
            case .responseTimeout: "response_timeout"
            case .malformed: "malformed"
            case .unexpectedUpgrade: "unexpected_upgrade"
            case .upgradeInvalid: "upgrade_invalid"
            }
        }

        /// Whether a server has failed, not the gateway's own room.
        public var isServers: Bool {
            switch self {
            case .connectionLimit, .waitingTimeout, .requestLimit: false
            case .unresolved, .unreachable, .connectTimeout, .tls, .disconnected, .responseTimeout, .malformed,
                .unexpectedUpgrade, .upgradeInvalid:
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
        case .connectionLimit: .connectionLimit
        case .waitingTimeout: .waitingTimeout
        case .requestLimit: .requestLimit
        case .disconnected: .disconnected
        case .responseTimeout: .responseTimeout
        case .malformed: .malformed
        case .unexpectedUpgrade: .unexpectedUpgrade
        case .upgradeInvalid: .upgradeInvalid
        }
    }
}
