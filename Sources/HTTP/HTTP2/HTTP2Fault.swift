/// The reason why an HTTP/2 connection ends before the peer, a client or a server, wanted it to.
public enum HTTP2Fault: Error, Equatable, Sendable {
    /// The connection does not begin with the peer's preface (RFC 9113 section 3.4).
    case prefaceMissing
    /// The peer violated the protocol, so nothing after that can be trusted (RFC 9113 section 5.4.1).
    case violation(HTTP2ErrorCode)
    /// The peer exceeded a limit of operations that cost us more than the peer.
    case excess(HTTP2Excess)
    /// nghttp2 failed: out of memory, or in an unexpected state. The number is nghttp2's own.
    case failed(Int32)

    /// The reason for the log.
    public var reason: StaticString {
        switch self {
        case .prefaceMissing: "the connection does not begin with the HTTP/2 preface"
        case .violation(let code): code.reason
        case .excess(let excess): excess.reason
        case .failed: "the HTTP/2 library reported a fatal error"
        }
    }
}

/// The exceeded limit, answered with GOAWAY and ENHANCE_YOUR_CALM.
public enum HTTP2Excess: UInt8, CaseIterable, Sendable {
    case settings, pings, resets, provokedResets, emptyFrames, priorities, windowUpdates, otherFrames
    case continuations, headerBlock, headerList, outboundFrames

    public var reason: StaticString {
        switch self {
        case .settings: "too many SETTINGS frames"
        case .pings: "too many PING frames"
        case .resets: "too many streams reset by the peer"
        case .provokedResets: "too many requests that were reset"
        case .emptyFrames: "too many frames without content"
        case .priorities: "too many PRIORITY frames"
        case .windowUpdates: "too many WINDOW_UPDATE frames"
        case .otherFrames: "too many frames that mean nothing"
        case .continuations: "too many CONTINUATION frames"
        case .headerBlock: "a header block that is too large"
        case .headerList: "a header block that decodes to many times the limit"
        case .outboundFrames: "too many frames that the peer does not read"
        }
    }
}

/// The error codes of RST_STREAM and GOAWAY (RFC 9113 section 7).
public enum HTTP2ErrorCode: UInt32, CaseIterable, Sendable {
    case noError, protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError
    case refusedStream, cancel, compressionError, connectError, enhanceYourCalm, inadequateSecurity, http11Required

    /// Creates the code that a peer sent. Unknown codes are internal errors (RFC 9113 section 7).
    init(sent code: UInt32) {
        self = HTTP2ErrorCode(rawValue: code) ?? .internalError
    }

    public var reason: StaticString {
        switch self {
        case .noError: "NO_ERROR"
        case .protocolError: "PROTOCOL_ERROR"
        case .internalError: "INTERNAL_ERROR"
        case .flowControlError: "FLOW_CONTROL_ERROR"
        case .settingsTimeout: "SETTINGS_TIMEOUT"
        case .streamClosed: "STREAM_CLOSED"
        case .frameSizeError: "FRAME_SIZE_ERROR"
        case .refusedStream: "REFUSED_STREAM"
        case .cancel: "CANCEL"
        case .compressionError: "COMPRESSION_ERROR"
        case .connectError: "CONNECT_ERROR"
        case .enhanceYourCalm: "ENHANCE_YOUR_CALM"
        case .inadequateSecurity: "INADEQUATE_SECURITY"
        case .http11Required: "HTTP_1_1_REQUIRED"
        }
    }
}

/// The reason why a request got no complete response over HTTP/2.
public enum HTTP2StreamFailure: Error, Equatable, Sendable {
    /// The server has certainly not processed the request, and no response has begun. The request may go to another
    /// server, whatever its method (RFC 9113 section 8.7).
    case unprocessed(HTTP2Unprocessed)
    /// The server has reset the stream. It may have processed the request.
    case reset(HTTP2ErrorCode)
    /// The response violates RFC 9113 section 8. Only this stream is reset.
    case malformed(MessageFault)
    /// The connection is gone.
    case disconnected
    /// We ended the connection because of the server's fault.
    case connectionFaulted(HTTP2Fault)
}

/// The evidence that a request was not processed.
public enum HTTP2Unprocessed: Sendable, CaseIterable {
    /// REFUSED_STREAM.
    case refused
    /// The stream is above the last one that GOAWAY declares as possibly processed.
    case goingAway
    /// The request's fields were not sent.
    case unsent

    /// The reason for the log.
    public var reason: StaticString {
        switch self {
        case .refused: "the server refused the stream before it processed anything"
        case .goingAway: "the server sent GOAWAY and has not processed the stream"
        case .unsent: "the connection ended before the request was sent"
        }
    }
}

/// The reason why a connection accepts no request.
public enum HTTP2OpenFailure: Error, Equatable, Sendable {
    /// The number of open streams is at its limit. There is room when one ends.
    case noRoom
    /// The connection ends, or its stream identifiers are used up.
    case closing
    /// The fields exceed a block. No connection accepts them.
    case headTooLarge
}
