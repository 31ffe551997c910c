/// What the fields of a request mean, whatever version of HTTP they came in: those of framing, those that may stand there
/// once only, and those that are answered here.
struct RequestFields {
    private(set) var framing = FramingFields()
    /// A bit for each field seen of those that may stand there once only, by the raw value of its name.
    private var singletons: UInt64 = 0

    /// - Parameter bytes: what the ranges of `field` refer to.
    mutating func take(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout RequestHead
    ) throws(MessageFault) {
        let range = field.valueRange
        switch field.name {
        case .contentLength: try framing.takeContentLength(bytes.extracting(range.start..<range.end))
        case .contentType, .authorization, .date, .ifMatch, .ifModifiedSince, .ifNoneMatch, .ifRange,
            .ifUnmodifiedSince, .origin, .range, .referer, .userAgent:
            // The program that checks the field and the one that uses it must read the same value (RFC 9110 section
            // 5.3).
            let mark: UInt64 = 1 << UInt64(field.name.rawValue)
            guard singletons & mark == 0 else { throw .fieldRepeated }
            singletons |= mark
        case .expect:
            guard !head.expectsContinue,
                bytes.extracting(range.start..<range.end).equals(lowercase: Self.hundredContinue)
            else { throw .expectationUnknown }
            head.expectsContinue = true
        case .traceparent:
            head.traceparent = head.hasTraceparent ? nil : range
            head.hasTraceparent = true
        default: break
        }
    }

    mutating func takeTransferEncoding(_ value: Span<UInt8>) throws(MessageFault) {
        try framing.takeTransferEncoding(value)
    }

    private static let hundredContinue = Array("100-continue".utf8)
}
