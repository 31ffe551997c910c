public import Bytes
internal import HTTP

/// The carrier of a call's request and response to and from a server.
///
/// An enumeration like `Server.ExchangeCarrier`, for the same reasons. The sender decides the content of a request; the
/// carrier decides how it is framed and how its end is marked.
public enum UpstreamCarrier {
    case http1(HTTP1Connection)
    case http2(UpstreamStream)

    /// Whether response trailers are delivered.
    public var takesTrailers: Bool {
        switch self {
        case .http1: false
        case .http2: true
        }
    }

    /// Writes the head of a request, which is sent with the first `send`.
    ///
    /// - Parameters:
    ///   - query: the query without the `?`. Nil for none.
    ///   - fields: appends the fields as lines, without those of host, connection and framing.
    /// - Returns: false if the head does not fit; nothing was written.
    public func writeHead(
        _ request: OutgoingRequest, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>,
        fields: (inout ByteBuffer) -> Void
    ) -> Bool {
        switch self {
        case .http1(let connection):
            connection.writeHead(request, path: path, query: query, authority: authority, fields: fields)
        case .http2(let stream):
            stream.writeHead(request, path: path, query: query, authority: authority, fields: fields)
        }
    }

    /// Sends the written bytes.
    ///
    /// - Parameter isComplete: whether the request ends with them.
    public func send(isComplete: Bool) {
        switch self {
        case .http1(let connection): connection.send(isComplete: isComplete)
        case .http2(let stream): stream.send(isComplete: isComplete)
        }
    }

    /// Sends the written bytes, if there are any.
    public func flush() {
        switch self {
        case .http1(let connection): if !connection.output.isEmpty { connection.send(isComplete: false) }
        case .http2(let stream): stream.send(isComplete: false)
        }
    }

    /// Continues to pass on response content.
    public func resumeResponse() {
        switch self {
        case .http1(let connection): connection.resumeResponse()
        case .http2(let stream): stream.resumeResponse()
        }
    }

    /// Ends our side of a tunnel: written bytes are still sent, nothing comes after them, and the server is notified of
    /// the end.
    public func finishSending() {
        switch self {
        case .http1(let connection): connection.finishSending()
        // No stream becomes a tunnel.
        case .http2: break
        }
    }

    /// The bytes of memory that the carrier holds in blocks for its call.
    var footprint: Int {
        switch self {
        case .http1(let connection): connection.input.footprint + connection.output.footprint
        case .http2(let stream): stream.footprint
        }
    }

    func cancel() {
        switch self {
        case .http1(let connection): connection.cancel()
        case .http2(let stream): stream.cancel()
        }
    }
}

extension UpstreamCarrier: ContentSink {
    public var contentRoom: Int {
        switch self {
        case .http1(let connection): connection.contentRoom
        case .http2(let stream): stream.contentRoom
        }
    }

    public func write(_ first: UInt8?, _ content: Span<UInt8>) {
        switch self {
        case .http1(let connection): connection.write(first, content)
        case .http2(let stream): stream.write(first, content)
        }
    }

    public func writeEnd() -> Bool {
        switch self {
        case .http1(let connection): connection.writeEnd()
        // `send` ends the stream.
        case .http2: true
        }
    }
}

/// The destination of a request's content, which frames it as the head has announced.
public protocol ContentSink {
    /// The number of bytes that may be written at once.
    var contentRoom: Int { get }
    /// Writes the byte that was kept back, if there is one, and the content that follows. There must be room for both.
    func write(_ first: UInt8?, _ content: Span<UInt8>)
    /// Writes the end of the content.
    ///
    /// - Returns: false if there is no room for it yet.
    func writeEnd() -> Bool
}

extension ContentSink {
    /// Writes as much as there is room for.
    ///
    /// - Returns: the number of bytes written.
    @inlinable
    public func write(prefixOf content: Span<UInt8>) -> Int {
        let taken = min(content.count, contentRoom)
        if taken > 0 { write(nil, content.extracting(first: taken)) }
        return taken
    }
}
