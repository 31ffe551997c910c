import HTTP

/// A head as the parser reports it, with ranges turned into text.
struct ParsedRequest: Equatable {
    var method: Method?
    var path: String
    var query: String?
    var authority: String
    var host: String
    var port: UInt16?
    var framing: ContentFraming
    var isPersistent: Bool
    var expectsContinue: Bool
    var fields: [String]
    var length: Int
}

enum Parsing {
    /// Parses a whole head given at once.
    static func request(_ text: String, limits: HeadLimits = .standard) -> Result<ParsedRequest?, MessageFault> {
        pieces([Array(text.utf8)], limits: limits)
    }

    /// Parses a head that arrives in pieces, as on a connection: always all bytes so far.
    static func pieces(
        _ pieces: [[UInt8]], limits: HeadLimits = .standard
    ) -> Result<ParsedRequest?, MessageFault> {
        var parser = RequestHeadParser(limits: limits)
        var head = RequestHead()
        var bytes: [UInt8] = []
        for piece in pieces {
            bytes += piece
            do throws(MessageFault) {
                if case .complete(let length) = try parser.parse(bytes.span, into: &head) {
                    return .success(describe(head, bytes, length))
                }
            } catch {
                return .failure(error)
            }
        }
        return .success(nil)
    }

    static func byteByByte(_ text: String) -> Result<ParsedRequest?, MessageFault> {
        pieces(text.utf8.map { [$0] })
    }

    static func response(
        _ text: String, answering method: Method = .get
    ) -> Result<(status: UInt16, framing: ContentFraming, isPersistent: Bool)?, MessageFault> {
        var parser = ResponseHeadParser(limits: .standard)
        var head = ResponseHead()
        let bytes = Array(text.utf8)
        do throws(MessageFault) {
            guard case .complete = try parser.parse(bytes.span, answering: method, into: &head) else {
                return .success(nil)
            }
            return .success((head.status, head.framing, head.isPersistent))
        } catch {
            return .failure(error)
        }
    }

    /// Decodes content given in pieces.
    ///
    /// - Returns: the content, whether it ended, and the bytes left over.
    static func content(
        _ pieces: [String], _ framing: ContentFraming, extensions: ContentDecoder.ChunkExtensions = .refused
    ) -> Result<(content: String, ended: Bool, rest: String), MessageFault> {
        var decoder = ContentDecoder(framing, extensions: extensions)
        var waiting: [UInt8] = []
        var content: [UInt8] = []
        for piece in pieces {
            waiting += piece.utf8
            do throws(MessageFault) {
                while true {
                    let step = try decoder.next(waiting.span)
                    switch step {
                    case .framing(let count): waiting.removeFirst(count)
                    case .content(let count):
                        content += waiting[..<count]
                        waiting.removeFirst(count)
                        decoder.consumed(count)
                    case .needMore, .end: break
                    }
                    if step == .needMore || step == .end { break }
                }
            } catch {
                return .failure(error)
            }
        }
        return .success((text(content), decoder.isAtEnd, text(waiting)))
    }

    private static func describe(_ head: RequestHead, _ bytes: [UInt8], _ length: Int) -> ParsedRequest {
        func part(_ range: ByteRange) -> String { text(bytes[range.start..<range.end]) }
        return ParsedRequest(
            method: head.method, path: part(head.path), query: head.query.map(part), authority: part(head.authority),
            host: part(head.host), port: head.port, framing: head.framing, isPersistent: head.isPersistent,
            expectsContinue: head.expectsContinue,
            fields: head.fields.map { "\(part($0.nameRange))=\(part($0.valueRange))" }, length: length)
    }

    private static func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
}

extension Result {
    var failure: Failure? { if case .failure(let failure) = self { failure } else { nil } }
}
