public import Bytes
internal import HTTP

/// What carries a call's request and response to and from a server.
///
/// An enumeration like `Server.ExchangeCarrier`, for the same reasons. The sender decides the content of a request; the
/// carrier decides how it is framed and how its end is marked.
public enum UpstreamCarrier {
    case http1(HTTP1Connection)
    case http2(UpstreamStream)

    /// Whether response trailers come through.
    public var takesTrailers: Bool {
        switch self {
        case .http1: false
        case .http2: true
        }
    }

    /// Writes the head of a request; it goes with the first `send`.
    ///
    /// - Parameters:
    ///   - query: without the `?`; nil for none.
    ///   - fields: appends the fields as lines, but for those of host, connection and framing.
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

    /// Sends what was written.
    ///
    /// - Parameter isComplete: whether the request ends with it.
    public func send(isComplete: Bool) {
        switch self {
        case .http1(let connection): connection.send(isComplete: isComplete)
        case .http2(let stream): stream.send(isComplete: isComplete)
        }
    }

    /// Sends what was written, if there is anything.
    public func flush() {
        switch self {
        case .http1(let connection): if !connection.output.isEmpty { connection.send(isComplete: false) }
        case .http2(let stream): stream.send(isComplete: false)
        }
    }

    /// Takes response content again.
    public func resumeResponse() {
        switch self {
        case .http1(let connection): connection.resumeResponse()
        case .http2(let stream): stream.resumeResponse()
        }
    }

    /// In a tunnel: what was written is still sent, nothing comes after it, and the server is notified of the end.
    public func finishSending() {
        switch self {
        case .http1(let connection): connection.finishSending()
        // None becomes a tunnel.
        case .http2: break
        }
    }

    /// Bytes of memory that the carrier holds in blocks for its call.
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

/// Where the content of a request goes, framed as its head has announced it.
public protocol ContentSink {
    /// How much may be written at once.
    var contentRoom: Int { get }
    /// Writes a byte that was kept back, if there is one, and what follows it: no more than there is room for.
    func write(_ first: UInt8?, _ content: Span<UInt8>)
    /// Writes what ends the content. - Returns: false if there is no room for it yet.
    func writeEnd() -> Bool
}

extension ContentSink {
    /// Writes as much as there is room for. - Returns: how much that was.
    @inlinable
    public func write(prefixOf content: Span<UInt8>) -> Int {
        let taken = min(content.count, contentRoom)
        if taken > 0 { write(nil, content.extracting(first: taken)) }
        return taken
    }
}
