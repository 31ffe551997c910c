/// How the end of a message's content is found (RFC 9112 section 6.3).
public enum ContentFraming: Equatable, Sendable {
    /// There is no content.
    case none
    /// That many octets, at least one.
    case length(UInt64)
    /// Of a length that is not stated; where it ends is said there: by the last chunk, in HTTP/2 by the end of the stream.
    case chunked
    /// Until the connection ends; responses only.
    case untilClose

    public var hasContent: Bool { self != .none }
}

/// Collects the framing fields of one head and decides.
struct FramingFields {
    private(set) var contentLength: UInt64?
    private(set) var isChunked = false

    /// Digits only, no sign, no list, no leading zero, less than 10^18: one spelling, no overflow.
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

    /// A single final `chunked`; anything else, a second one included, is a way to be read in two ways.
    mutating func takeTransferEncoding(_ value: Span<UInt8>) throws(MessageFault) {
        guard !isChunked, value.equals(lowercase: Self.chunked) else { throw .transferEncodingUnsupported }
        isChunked = true
    }

    /// - Returns: nil if neither field is present.
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
