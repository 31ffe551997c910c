/// An incremental parser of HTTP/1.1 response heads, as strict as that of requests: an upstream whose responses can be
/// read in two ways is as dangerous as a client.
public struct ResponseHeadParser: HeadScanner, Sendable {
    let limits: HeadLimits
    let table = FieldNameTable.shared

    var position = 0
    private var framing = FramingFields()

    public init(limits: HeadLimits) {
        self.limits = limits
    }

    public mutating func reset() {
        position = 0
        framing = FramingFields()
    }

    /// Parses a head.
    ///
    /// - Parameter method: the method of the request, since a response to HEAD has no content.
    public mutating func parse(
        _ bytes: Span<UInt8>, answering method: Method?, into head: inout ResponseHead
    ) throws(MessageFault) -> HeadProgress {
        guard let length = try scan(bytes, into: &head) else { return try incomplete(bytes) }
        head.framing = try decideFraming(head, method)
        head.statedLength = framing.contentLength
        head.statesChunked = framing.isChunked
        reset()
        return .complete(length: length)
    }

    private func incomplete(_ bytes: Span<UInt8>) throws(MessageFault) -> HeadProgress {
        guard bytes.count < limits.bytes else { throw .headTooLarge }
        return .incomplete
    }

    /// Parses `HTTP/1.x SP 3DIGIT SP [reason] CR LF`. Some servers leave out the second space with the reason.
    mutating func parseStartLine(
        _ bytes: Span<UInt8>, into head: inout ResponseHead
    ) throws(MessageFault) -> Int? {
        head.reset()
        guard bytes.count >= 13 else {
            for index in bytes.indices where bytes[index] == ByteClass.lineFeed { throw .statusLineMalformed }
            return nil
        }
        guard isVersion(bytes, at: 0) else { throw .statusLineMalformed }
        guard bytes[7] == UInt8(ascii: "1") || bytes[7] == UInt8(ascii: "0"), bytes[8] == ByteClass.space else {
            throw .statusLineMalformed
        }
        head.minorVersion = bytes[7] - UInt8(ascii: "0")
        var status: UInt16 = 0
        for index in 9..<12 {
            guard ByteClass.isDigit(bytes[index]) else { throw .statusLineMalformed }
            status = status * 10 + UInt16(bytes[index] - 0x30)
        }
        guard (100...599).contains(status), bytes[12] == ByteClass.space || bytes[12] == ByteClass.carriageReturn else {
            throw .statusLineMalformed
        }
        head.status = status
        var index = 12
        while index < bytes.count, bytes[index] >= 0x20 && bytes[index] != 0x7f || bytes[index] == ByteClass.tab {
            index += 1
        }
        guard index + 1 < bytes.count else { return nil }
        guard bytes[index] == ByteClass.carriageReturn, bytes[index + 1] == ByteClass.lineFeed else {
            throw .statusLineMalformed
        }
        return index + 2
    }

    mutating func take(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout ResponseHead
    ) throws(MessageFault) {
        try interpret(field, bytes, &head)
        head.fields.append(field)
    }

    private mutating func interpret(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout ResponseHead
    ) throws(MessageFault) {
        let range = field.valueRange
        switch field.name {
        case .contentLength: try framing.takeContentLength(bytes.extracting(range.start..<range.end))
        case .transferEncoding: try framing.takeTransferEncoding(bytes.extracting(range.start..<range.end))
        case .connection: try head.connection.take(bytes, range, table, unknown: .dropped)
        default: break
        }
    }

    /// Decides the framing (RFC 9112 section 6.3).
    private func decideFraming(_ head: ResponseHead, _ method: Method?) throws(MessageFault) -> ContentFraming {
        let stated = try framing.framing(minorVersion: head.minorVersion)
        if head.status == 204 || head.isInterim {
            // RFC 9112 section 6.1 and RFC 9110 section 8.6 forbid both fields: their sender may also send content,
            // which would be taken for the next response. Many send `Content-Length: 0`, which is harmless.
            guard stated == nil || stated == ContentFraming.none else { throw .contentImpossible }
            return .none
        }
        if method == .head || head.status == 304 { return .none }
        return stated ?? .untilClose
    }
}

/// A parsed response head, with ranges into the bytes from which it was parsed.
public struct ResponseHead: ScannedHead, Sendable {
    public internal(set) var status: UInt16 = 0
    public internal(set) var minorVersion: UInt8 = 1
    public internal(set) var fields: [HeaderField] = []
    public internal(set) var connection = ConnectionOptions()
    public internal(set) var framing = ContentFraming.none
    /// Content-Length as sent. With HEAD and 304 it describes content that does not follow.
    public internal(set) var statedLength: UInt64?

    /// Whether the head announces chunked content, even if none follows.
    public internal(set) var statesChunked = false

    public init() {}

    /// Whether the connection can serve another request after this response.
    public var isPersistent: Bool {
        framing != .untilClose && !connection.close && (minorVersion >= 1 || connection.keepAlive)
    }

    public var isInterim: Bool { status < 200 }

    mutating func reset() {
        fields.removeAll(keepingCapacity: true)
        connection.reset()
        framing = .none
        statedLength = nil
        statesChunked = false
    }
}

/// The fields behind the content of a response, with ranges into the bytes from which they were read.
///
/// Only HTTP/2 has them: those of HTTP/1.1's chunked coding are dropped when they are read.
public struct ResponseTrailers: Sendable {
    public internal(set) var fields: [HeaderField] = []

    public init() {}
}
