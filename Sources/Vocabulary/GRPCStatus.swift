/// The gRPC status codes that carry denials, with their numbers on the wire (gRPC's statuscodes.md).
public enum GRPCStatus: UInt8, Sendable {
    case deadlineExceeded = 4
    case permissionDenied = 7
    case resourceExhausted = 8
    case failedPrecondition = 9
    case unimplemented = 12
    case internalError = 13
    case unavailable = 14
    case unauthenticated = 16

    public var name: String {
        switch self {
        case .deadlineExceeded: "DEADLINE_EXCEEDED"
        case .permissionDenied: "PERMISSION_DENIED"
        case .resourceExhausted: "RESOURCE_EXHAUSTED"
        case .failedPrecondition: "FAILED_PRECONDITION"
        case .unimplemented: "UNIMPLEMENTED"
        case .internalError: "INTERNAL"
        case .unavailable: "UNAVAILABLE"
        case .unauthenticated: "UNAUTHENTICATED"
        }
    }
}

extension Denial {
    /// The status that a gRPC client receives; nil for what is not answered by HTTP.
    ///
    /// Where gRPC makes something of the HTTP status (http-grpc-status-mapping.md), it is that: libraries that look at the HTTP status
    /// show the same code. Of the others it would make UNKNOWN, and here they have the code that fits.
    public var grpcStatus: GRPCStatus? {
        switch self {
        // 400.
        case .requestMalformed, .headerRefused, .bodyDigestMismatch: .internalError
        // 401.
        case .deviceUnknown, .proofRequired, .proofMalformed, .challengeRequired, .proofStale, .proofIncomplete,
            .proofInvalid, .counterReplayed, .counterLate:
            .unauthenticated
        // 403.
        case .deviceRevoked, .deviceMismatch, .deviceRisky, .osOutdated, .appRefused: .permissionDenied
        // 404, and 405: gRPC knows no other method than POST.
        case .routeUnknown, .methodRefused: .unimplemented
        // 408.
        case .requestTimeout: .deadlineExceeded
        // 413, 414, 431: what gRPC says of a message that is larger than a peer admits.
        case .contentTooLarge, .targetTooLong, .headTooLarge: .resourceExhausted
        // 421, 426: the same again, on another connection or in another way.
        case .misdirected, .webSocketVersion: .failedPrecondition
        // 500: what HTTP status mapping calls UNKNOWN; INTERNAL says whose error it is.
        case .internalError: .internalError
        // 429, 502, 503, 504.
        case .rateLimited, .deviceTunnelLimit, .deviceRequestLimit, .storeUnavailable, .overloaded,
            .upstreamUnavailable, .upstreamTimeout, .upstreamBusy, .tunnelLimit:
            .unavailable
        case .proxyHeaderRefused, .certificateRequired, .certificateUnknownAuthority, .certificateExpired,
            .certificateUnsuitable, .certificateRevoked, .crlStale, .certificateNotPinned, .deviceRevokedInHandshake,
            .bindingEndedInHandshake, .handshakeFailed, .handshakeTimeout, .connectionLimit, .protocolBroken,
            .protocolAbused, .responseNotTaken:
            nil
        }
    }
}
