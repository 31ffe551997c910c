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
