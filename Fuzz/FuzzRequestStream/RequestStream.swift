import HTTP

/// What the parsers of a connection find in its bytes: the requests that are complete, and how it ends.
///
/// The work of a server connection, without connection: a head is parsed from the first byte that no request before has
/// taken, its content is decoded behind it.
struct RequestStream {
    enum End: Equatable {
        /// Complete, or in the middle of a request.
        case open
        /// Nothing is read behind the last request.
        case closed
        case refused
    }

    var requests: [ReadRequest] = []
    var end = End.open

    static func read(_ bytes: [UInt8], inStepsOf step: Int, headLimit: Int = 2_048) -> RequestStream {
        var stream = RequestStream()
        var parser = RequestHeadParser(limits: HeadLimits(bytes: headLimit, target: 512, fields: 32))
        var head = RequestHead()
        var start = 0
        var arrived = 0
        do throws(MessageFault) {
            while true {
                if start < arrived,
                    case .complete(let length) = try parser.parse(bytes.span.extracting(start..<arrived), into: &head)
                {
                    precondition(length > 0 && start + length <= arrived)
                    let headBytes = Array(bytes[start..<(start + length)])
                    start += length
                    guard let content = try decode(head, bytes, &start, &arrived, step) else { return stream }
                    stream.requests.append(ReadRequest(head, headBytes, content))
                    guard head.isPersistent else {
                        stream.end = .closed
                        return stream
                    }
                } else {
                    guard arrived < bytes.count else { return stream }
                    arrived = min(arrived + step, bytes.count)
                }
            }
        } catch {
            stream.end = .refused
            return stream
        }
    }

    /// - Returns: nil if the bytes end within the content.
    private static func decode(
        _ head: RequestHead, _ bytes: [UInt8], _ start: inout Int, _ arrived: inout Int, _ step: Int
    ) throws(MessageFault) -> [UInt8]? {
        var decoder = ContentDecoder(head.framing, extensions: .refused)
        var content: [UInt8] = []
        while true {
            switch try decoder.next(bytes.span.extracting(start..<arrived)) {
            case .needMore:
                guard arrived < bytes.count else { return nil }
                arrived = min(arrived + step, bytes.count)
            case .framing(let count): start += count
            case .content(let count):
                content += bytes[start..<(start + count)]
                start += count
                decoder.consumed(count)
            case .end: return content
            }
            precondition(start <= arrived)
        }
    }
}

/// One request as it was understood.
struct ReadRequest: Equatable {
    var method: Method?
    var methodText: [UInt8]
    var path: [UInt8]
    var query: [UInt8]?
    var authority: [UInt8]
    var host: [UInt8]
    /// Without those of framing and connection.
    var fields: [[[UInt8]]]
    var content: [UInt8]

    init(_ head: RequestHead, _ bytes: [UInt8], _ content: [UInt8]) {
        func text(_ range: ByteRange) -> [UInt8] { Array(bytes[range.start..<range.end]) }
        method = head.method
        methodText = Array(bytes.prefix { $0 != 0x20 })
        path = text(head.path)
        query = head.query.map(text)
        authority = text(head.authority)
        host = text(head.host)
        fields = head.fields.compactMap { field in
            switch field.name {
            case .host, .connection, .contentLength, .transferEncoding, .expect: nil
            default: [text(field.nameRange), text(field.valueRange)]
            }
        }
        self.content = content
    }

    /// As a service gets it: origin-form, Host first, a length.
    var rewritten: [UInt8] {
        var made = methodText + Array(" ".utf8) + path
        if let query { made += Array("?".utf8) + query }
        made += Array(" HTTP/1.1\r\nHost: ".utf8) + authority + Array("\r\n".utf8)
        for field in fields { made += field[0] + Array(": ".utf8) + field[1] + Array("\r\n".utf8) }
        if !content.isEmpty { made += Array("Content-Length: \(content.count)\r\n".utf8) }
        return made + Array("\r\n".utf8) + content
    }
}
