/// Why a connection of HTTP/2 ends before the peer wanted it to: the client, or the server we are the client of.
public enum HTTP2Fault: Error, Equatable, Sendable {
    /// It does not begin with the peer's preface (RFC 9113 section 3.4).
    case prefaceMissing
    /// The protocol was broken; nothing that came after is to be trusted (RFC 9113 section 5.4.1).
    case violation(HTTP2ErrorCode)
    /// The peer did too often what costs us more than it.
    case excess(HTTP2Excess)
    /// The library gave up: out of memory, or a state that it does not know. The number is its own.
    case failed(Int32)

    /// For the log.
    public var reason: StaticString {
        switch self {
        case .prefaceMissing: "the connection does not begin with the HTTP/2 preface"
        case .violation(let code): code.reason
        case .excess(let excess): excess.reason
        case .failed: "the HTTP/2 library reported a fatal error"
        }
    }
}

/// What there was too much of: answered with GOAWAY and ENHANCE_YOUR_CALM.
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

/// Error codes of RST_STREAM and GOAWAY (RFC 9113 section 7).
public enum HTTP2ErrorCode: UInt32, CaseIterable, Sendable {
    case noError, protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError
    case refusedStream, cancel, compressionError, connectError, enhanceYourCalm, inadequateSecurity, http11Required

    /// What a peer sent; codes that nobody knows are internal errors (RFC 9113 section 7).
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

/// Why a request got no complete response over HTTP/2.
public enum HTTP2StreamFailure: Error, Equatable, Sendable {
    /// The server has certainly not processed the request, and nothing of an answer has come. The request may go to
    /// another server, whatever the method is (RFC 9113 section 8.7).
    case unprocessed(HTTP2Unprocessed)
    /// The server has reset the stream. What it has done before, nobody knows.
    case reset(HTTP2ErrorCode)
    /// The response is not what RFC 9113 section 8 has. The server is notified by a reset of this stream alone.
    case malformed(MessageFault)
    /// The connection is gone.
    case disconnected
    /// The connection was ended by us, for what the server did on it.
    case connectionFaulted(HTTP2Fault)
}

/// How it is known that a request was not processed.
public enum HTTP2Unprocessed: Sendable, CaseIterable {
    /// REFUSED_STREAM.
    case refused
    /// The stream is above the last one that GOAWAY says may be processed.
    case goingAway
    /// The request's fields, without which it is none, were not sent.
    case unsent

    /// For the log.
    public var reason: StaticString {
        switch self {
        case .refused: "the server refused the stream before it processed anything"
        case .goingAway: "the server sent GOAWAY and has not processed the stream"
        case .unsent: "the connection ended before the request was sent"
        }
    }
}

/// Why a connection takes no request.
public enum HTTP2OpenFailure: Error, Equatable, Sendable {
    /// The number of open streams is at its limit. There is room when one ends.
    case noRoom
    /// It takes none any more: it ends, or its numbers are used up.
    case closing
    /// The fields do not fit a block. No connection takes them.
    case headTooLarge
}
