public import Bytes

/// The writer of HTTP/1.1 messages. Values come from parsed messages or from this program, so they contain no line
/// ends.
extension ByteBuffer {
    public mutating func appendField(_ name: StaticString, _ value: StaticString) {
        append(name, ": ")
        append(value, "\r\n")
    }

    public mutating func appendField(_ name: StaticString, _ value: Span<UInt8>) {
        append(name, ": ", value, "\r\n")
    }

    public mutating func appendField(_ name: Span<UInt8>, _ value: Span<UInt8>) {
        append(name, ": ", value, "\r\n")
    }

    /// Appends a field of a parsed head. If it is spelt there exactly as here, name and value are copied in one piece.
    ///
    /// - Parameter bytes: the bytes to which the field's ranges refer.
    public mutating func appendField(_ field: HeaderField, of bytes: Span<UInt8>) {
        let (name, value) = (field.nameRange, field.valueRange)
        if value.start == name.end + 2, bytes[name.end] == ByteClass.colon, bytes[name.end + 1] == ByteClass.space {
            append(bytes.extracting(name.start..<value.end), "\r\n")
        } else {
            appendField(name.of(bytes), value.of(bytes))
        }
    }

    /// Appends the authority of a request in canonical form: the host in lower case, and no port if it is that of
    /// https.
    ///
    /// - Parameter bytes: the bytes to which the ranges of `head` refer.
    public mutating func appendCanonicalAuthority(of head: RequestHead, _ bytes: Span<UInt8>) {
        let authority = (head.port == 443 ? head.host : head.authority).of(bytes)
        var start = 0
        for index in authority.indices where ByteClass.lowercased(authority[index]) != authority[index] {
            append(authority.extracting(start..<index))
            append(ByteClass.lowercased(authority[index]))
            start = index + 1
        }
        append(authority.extracting(start...))
    }

    public mutating func appendField(_ name: StaticString, decimal value: UInt64) {
        append(name, ": ")
        append(decimal: value)
        append("\r\n")
    }

    /// Appends `HTTP/1.1 SP status SP reason CR LF`.
    public mutating func appendStatusLine(_ status: UInt16) {
        // The most frequent status.
        guard status != 200 else { return append("HTTP/1.1 200 OK\r\n") }
        append("HTTP/1.1 ")
        append(decimal: UInt64(status))
        append(" ", StatusReason.of(status))
        append("\r\n")
    }

    /// Appends a request head: the request line, Host, the other fields, and those of connection and framing.
    ///
    /// - Parameters:
    ///   - query: the query without the `?`. Nil for none.
    ///   - isUpgrade: whether it asks for a WebSocket.
    ///   - isLast: whether the connection is closed after the response.
    ///   - fields: appends the other fields.
    public mutating func appendRequestHead(
        _ method: Method, path: Span<UInt8>, query: Span<UInt8>?, authority: Span<UInt8>, framing: ContentFraming,
        isUpgrade: Bool = false, isLast: Bool = false, fields: (inout ByteBuffer) -> Void
    ) {
        if let query {
            append(method.name, " ", path, "?")
            append(query, " HTTP/1.1\r\nHost: ")
        } else {
            append(method.name, " ", path, " HTTP/1.1\r\nHost: ")
        }
        append(authority, "\r\n")
        fields(&self)
        if isUpgrade {
            appendField("Connection", "Upgrade")
            appendField("Upgrade", "websocket")
        }
        if isLast { appendField("Connection", "close") }
        switch framing {
        case .length(let length): appendField("Content-Length", decimal: length)
        case .chunked: appendField("Transfer-Encoding", "chunked")
        case .none, .untilClose:
            // A method that usually has content states that there is none (RFC 9110 section 8.6).
            if method == .post || method == .put || method == .patch { appendField("Content-Length", decimal: 0) }
        }
        append("\r\n")
    }

    /// The bytes of a chunk around its data: eight digits and two line ends.
    public static var chunkOverhead: Int { 8 + 4 }

    /// The bytes of the last chunk and the empty trailer section.
    public static var lastChunkLength: Int { 5 }

    /// The maximum data of one chunk that fits.
    public var chunkRoom: Int { max(0, room - Self.chunkOverhead) }

    /// Appends as much of `content` as fits as one chunk.
    ///
    /// - Returns: the number of bytes appended.
    public mutating func appendChunk(prefixOf content: Span<UInt8>) -> Int {
        let count = min(content.count, chunkRoom)
        appendChunk(nil, content.extracting(first: count))
        return count
    }

    /// Appends one chunk of a byte that was kept back, if there is one, and of the content that follows; none if both
    /// are empty. Together they fit `chunkRoom`.
    public mutating func appendChunk(_ first: UInt8?, _ content: Span<UInt8>) {
        let count = content.count + (first == nil ? 0 : 1)
        guard count > 0 else { return }
        append(hex: UInt64(count))
        append("\r\n")
        if let first { append(first) }
        append(content)
        append("\r\n")
    }

    /// Appends the last chunk and the empty trailer section.
    ///
    /// - Returns: false if it does not fit yet.
    public mutating func appendLastChunk() -> Bool {
        guard room >= Self.lastChunkLength else { return false }
        append("0\r\n\r\n")
        return true
    }
}

/// The reason phrases (RFC 9110 section 15), which people read and programs ignore.
public enum StatusReason {
    public static func of(_ status: UInt16) -> StaticString {
        switch status {
        case 100: "Continue"
        case 101: "Switching Protocols"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 203: "Non-Authoritative Information"
        case 204: "No Content"
        case 205: "Reset Content"
        case 206: "Partial Content"
        case 207: "Multi-Status"
        case 300: "Multiple Choices"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 303: "See Other"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 402: "Payment Required"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 416: "Range Not Satisfiable"
        case 417: "Expectation Failed"
        case 421: "Misdirected Request"
        case 422: "Unprocessable Content"
        case 423: "Locked"
        case 424: "Failed Dependency"
        case 425: "Too Early"
        case 426: "Upgrade Required"
        case 428: "Precondition Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 451: "Unavailable For Legal Reasons"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        case 507: "Insufficient Storage"
        default: "Status"
        }
    }
}
