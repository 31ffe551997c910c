internal import Encoding

/// A decoder that finds the content in the bytes that follow a head, for any framing.
///
/// A pull parser: ask for the `next` step, consume its bytes, and ask again.
public struct ContentDecoder: Sendable {
    public enum Step: Equatable, Sendable {
        /// More bytes are needed.
        case needMore
        /// The first bytes belong to the framing. Consume that many.
        case framing(Int)
        /// The first bytes are content. Consume some or all of them, and report the number with `consumed`.
        case content(Int)
        /// The content is complete.
        case end
    }

    private enum State: Equatable {
        case length(UInt64)
        case chunkSize
        case chunkData(UInt64)
        case chunkEnd
        case trailer(bytes: Int)
        case untilClose
        case end
    }

    /// Whether chunk extensions are skipped (responses) or refused. None of our clients sends any in requests, and
    /// parsers disagree about them.
    public enum ChunkExtensions: Sendable {
        case refused
        case ignored
    }

    private var state: State
    private let extensions: ChunkExtensions

    /// The maximum length of a chunk size line, including its extension.
    private static let sizeLineLimit = 256
    /// The maximum size of a trailer section, in bytes.
    static let trailerLimit = 4096

    public init(_ framing: ContentFraming, extensions: ChunkExtensions) {
        self.extensions = extensions
        switch framing {
        case .none: state = .end
        case .length(let length): state = .length(length)
        case .chunked: state = .chunkSize
        case .untilClose: state = .untilClose
        }
    }

    public var isAtEnd: Bool { state == .end }

    /// The remaining content. Nil if it is unknown.
    public var remaining: UInt64? {
        switch state {
        case .length(let left): left
        case .end: 0
        default: nil
        }
    }

    /// Whether the end of the connection is the end of the content.
    public var endsWithConnection: Bool { state == .untilClose }

    public mutating func next(_ bytes: Span<UInt8>) throws(MessageFault) -> Step {
        switch state {
        case .end: return .end
        case _ where bytes.isEmpty: return .needMore
        case .length(let left), .chunkData(let left): return .content(Int(min(left, UInt64(bytes.count))))
        case .untilClose: return .content(bytes.count)
        case .chunkSize: return try parseSize(bytes)
        case .chunkEnd:
            guard bytes[0] == ByteClass.carriageReturn else { throw .chunkMalformed }
            guard bytes.count >= 2 else { return .needMore }
            guard bytes[1] == ByteClass.lineFeed else { throw .chunkMalformed }
            state = .chunkSize
            return .framing(2)
        case .trailer(let before): return try parseTrailer(bytes, before)
        }
    }

    /// Records the consumed part of a `.content` step.
    public mutating func consumed(_ count: Int) {
        switch state {
        case .length(let left): state = left == UInt64(count) ? .end : .length(left - UInt64(count))
        case .chunkData(let left): state = left == UInt64(count) ? .chunkEnd : .chunkData(left - UInt64(count))
        default: break
        }
    }

    /// Parses 1 to 15 hexadecimal digits (no sign, no `0x`, no overflow) and CR LF.
    private mutating func parseSize(_ bytes: Span<UInt8>) throws(MessageFault) -> Step {
        var size: UInt64 = 0
        var position = 0
        while position < bytes.count, let digit = Hexadecimal.value(bytes[position]) {
            guard position < 15 else { throw .chunkMalformed }
            size = size << 4 | UInt64(digit)
            position += 1
        }
        guard position < bytes.count else { return .needMore }
        guard position > 0 else { throw .chunkMalformed }
        if extensions == .ignored, bytes[position] == UInt8(ascii: ";") {
            while position < bytes.count, bytes[position] != ByteClass.carriageReturn {
                guard bytes[position] != ByteClass.lineFeed, position < Self.sizeLineLimit else {
                    throw .chunkMalformed
                }
                position += 1
            }
            guard position < bytes.count else { return .needMore }
        }
        guard bytes[position] == ByteClass.carriageReturn else { throw .chunkMalformed }
        guard position + 1 < bytes.count else { return .needMore }
        guard bytes[position + 1] == ByteClass.lineFeed else { throw .chunkMalformed }
        state = size == 0 ? .trailer(bytes: 0) : .chunkData(size)
        return .framing(position + 2)
    }

    /// Parses trailer fields as strictly as header fields, and drops them. Nothing after the decision may change its
    /// basis (RFC 9110 section 6.5.1 allows dropping them).
    private mutating func parseTrailer(_ bytes: Span<UInt8>, _ before: Int) throws(MessageFault) -> Step {
        switch try FieldLine.parse(bytes, at: 0, table: .shared) {
        case .incomplete:
            guard before + bytes.count < Self.trailerLimit else { throw .trailerTooLarge }
            return .needMore
        case .field(let field, let next):
            guard !field.hasUnusualName else { throw .fieldNameUnusual }
            // RFC 9110 section 6.5.1: these have no effect in trailers, so a sender expects some recipient to believe
            // them.
            switch field.name {
            case .host, .contentLength, .transferEncoding: throw .trailerNamesFraming
            default: break
            }
            guard before + next < Self.trailerLimit else { throw .trailerTooLarge }
            state = .trailer(bytes: before + next)
            return .framing(next)
        case .end(let next):
            // As if it had come byte by byte.
            guard before + next <= Self.trailerLimit else { throw .trailerTooLarge }
            state = .end
            return .framing(next)
        }
    }
}

/// The framing of a message's content (RFC 9112 section 6.3).
public enum ContentFraming: Equatable, Sendable {
    /// There is no content.
    case none
    /// The number of bytes, at least one.
    case length(UInt64)
    /// Unknown length. The last chunk ends the content, or in HTTP/2 the end of the stream.
    case chunked
    /// All bytes until the connection ends. Responses only.
    case untilClose

    public var hasContent: Bool { self != .none }
}

/// The framing fields of one head, and the decision about them.
struct FramingFields {
    private(set) var contentLength: UInt64?
    private(set) var isChunked = false

    /// Parses Content-Length: only digits, no sign, no list, no leading zero, less than 10^18. So it has one spelling
    /// and cannot overflow.
    mutating func takeContentLength(_ value: Span<UInt8>) throws(MessageFault) {
        guard contentLength == nil else { throw .contentLengthRepeated }
        guard (1...18).contains(value.count), value[0] != UInt8(ascii: "0") || value.count == 1 else {
            throw .contentLengthMalformed
        }
        var length: UInt64 = 0
        for index in value.indices {
            guard ByteClass.isDigit(value[index]) else { throw .contentLengthMalformed }
            length = length * 10 + UInt64(value[index] - 0x30)
        }
        contentLength = length
    }

    /// Parses Transfer-Encoding: a single final `chunked`. Anything else, a second `chunked` included, can be read in
    /// two ways.
    mutating func takeTransferEncoding(_ value: Span<UInt8>) throws(MessageFault) {
        guard !isChunked, value.equals(lowercase: Self.chunked) else { throw .transferEncodingUnsupported }
        isChunked = true
    }

    /// Returns the framing, or nil if neither field is present.
    func framing(minorVersion: UInt8) throws(MessageFault) -> ContentFraming? {
        if isChunked {
            guard contentLength == nil else { throw .contentLengthWithTransferEncoding }
            // RFC 9112 section 6.1: a 1.0 message with Transfer-Encoding has faulty framing.
            guard minorVersion >= 1 else { throw .transferEncodingUnsupported }
            return .chunked
        }
        guard let contentLength else { return nil }
        return contentLength == 0 ? ContentFraming.none : .length(contentLength)
    }

    private static let chunked = Array("chunked".utf8)
}
