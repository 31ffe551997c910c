internal import Encoding

/// An incremental and strict parser of HTTP/1.1 request heads.
///
/// Deviations from RFC 9112 only refuse more: no empty line before the request line (section 2.2), no bare line feed
/// (2.2), only origin-form and absolute https form (3.2), no list in Content-Length (6.3).
public struct RequestHeadParser: HeadScanner, Sendable {
    let limits: HeadLimits
    let table = FieldNameTable.shared

    var position = 0
    /// The number of bytes after `position` that are known to have no line feed.
    private var searched = 0
    private var meanings = RequestFields()
    private var absoluteAuthority: ByteRange?
    private var hasHost = false

    public init(limits: HeadLimits) {
        self.limits = limits
    }

    /// Prepares for the next head.
    public mutating func reset() {
        position = 0
        searched = 0
        meanings = RequestFields()
        absoluteAuthority = nil
        hasHost = false
    }

    public mutating func parse(
        _ bytes: Span<UInt8>, into head: inout RequestHead
    ) throws(MessageFault) -> HeadProgress {
        if searched > 0, !hasLineFeed(bytes) { return try incomplete(bytes) }
        guard let length = try scan(bytes, into: &head) else { return try incomplete(bytes) }
        try finish(&head, bytes)
        reset()
        return .complete(length: length)
    }

    // MARK: - Lines

    private mutating func incomplete(_ bytes: Span<UInt8>) throws(MessageFault) -> HeadProgress {
        if position == 0, bytes.count > limits.target + Self.requestLineOverhead { throw .targetTooLong }
        guard bytes.count < limits.bytes else { throw .headTooLarge }
        searched = bytes.count
        return .incomplete
    }

    /// The maximum length of a method. No registered one is longer (RFC 9110 section 16.1).
    private static let longestMethod = 20
    /// The method and a space before the target, ` HTTP/1.1` and the line end behind it.
    private static let requestLineOverhead = longestMethod + 1 + 11

    private func hasLineFeed(_ bytes: Span<UInt8>) -> Bool {
        var index = searched
        while index < bytes.count {
            if bytes[index] == ByteClass.lineFeed { return true }
            index += 1
        }
        return false
    }

    /// Parses the request line.
    mutating func parseStartLine(
        _ bytes: Span<UInt8>, into head: inout RequestHead
    ) throws(MessageFault) -> Int? {
        head.reset()
        var index = 0
        while index < bytes.count, ByteClass.isToken(bytes[index]) { index += 1 }
        guard index <= Self.longestMethod else { throw .requestLineMalformed }
        guard index < bytes.count else { return nil }
        guard index > 0, bytes[index] == ByteClass.space else { throw .requestLineMalformed }
        head.method = Method(bytes.extracting(0..<index))

        let targetStart = index + 1
        index = targetStart
        while index < bytes.count, bytes[index] > ByteClass.space, bytes[index] < 0x7f { index += 1 }
        guard index - targetStart <= limits.target else { throw .targetTooLong }
        guard index < bytes.count else { return nil }
        guard bytes[index] == ByteClass.space, index > targetStart else { throw .requestLineMalformed }
        let target = ByteRange(targetStart, index)

        // HTTP/1.x CR LF: ten bytes.
        let version = index + 1
        guard version + 10 <= bytes.count else {
            for seen in version..<bytes.count where bytes[seen] == ByteClass.lineFeed { throw .requestLineMalformed }
            return nil
        }
        guard isVersion(bytes, at: version) else { throw .versionUnsupported }
        switch bytes[version + 7] {
        case UInt8(ascii: "1"): head.version = .http11
        case UInt8(ascii: "0"): head.version = .http10
        default: throw .versionUnsupported
        }
        guard bytes[version + 8] == ByteClass.carriageReturn, bytes[version + 9] == ByteClass.lineFeed else {
            throw .requestLineMalformed
        }
        try parseTarget(bytes, target, into: &head)
        return version + 10
    }

    private static let schemePrefix = Array("https://".utf8)

    private mutating func parseTarget(
        _ bytes: Span<UInt8>, _ target: ByteRange, into head: inout RequestHead
    ) throws(MessageFault) {
        var pathStart = target.start
        if bytes[pathStart] != UInt8(ascii: "/") {
            // absolute-form: only with the scheme of this listener.
            guard target.count > Self.schemePrefix.count,
                bytes.extracting(pathStart..<(pathStart + Self.schemePrefix.count)).equals(lowercase: Self.schemePrefix)
            else { throw .targetForm }
            let authorityStart = pathStart + Self.schemePrefix.count
            pathStart = authorityStart
            while pathStart < target.end, bytes[pathStart] != UInt8(ascii: "/") { pathStart += 1 }
            guard pathStart < target.end else { throw .targetForm }
            absoluteAuthority = ByteRange(authorityStart, pathStart)
        }
        try head.take(target: ByteRange(pathStart, target.end), bytes, admitting: limits.targetForms)
    }

    // MARK: - Fields

    mutating func take(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout RequestHead
    ) throws(MessageFault) {
        try interpret(field, bytes, &head)
        try head.append(field, limits)
    }

    private mutating func interpret(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout RequestHead
    ) throws(MessageFault) {
        let range = field.valueRange
        switch field.name {
        case .host, .contentLength, .transferEncoding:
            guard !hasTab(bytes, field) else { throw .fieldValueMalformed }
        default: break
        }
        switch field.name {
        case .host:
            guard !hasHost else { throw .hostRepeated }
            hasHost = true
            let value = bytes.extracting(range.start..<range.end)
            let (length, port) = try Authority.parse(value)
            head.authority = range
            head.host = ByteRange(range.start, range.start + length)
            head.port = port
        case .transferEncoding: try meanings.takeTransferEncoding(bytes.extracting(range.start..<range.end))
        case .connection: try head.connection.take(bytes, range, table, unknown: .refused)
        default: try meanings.take(field, bytes, &head)
        }
    }

    /// Returns whether a tab is beside the value. RFC 9110 section 5.6.3 defines it as white space, but some readers
    /// take it for a part of the value, and so see another framing or host.
    private func hasTab(_ bytes: Span<UInt8>, _ field: HeaderField) -> Bool {
        for index in (field.nameRange.end + 1)..<field.valueRange.start where bytes[index] == ByteClass.tab {
            return true
        }
        var index = field.valueRange.end
        while bytes[index] != ByteClass.carriageReturn {
            if bytes[index] == ByteClass.tab { return true }
            index += 1
        }
        return false
    }

    private func finish(_ head: inout RequestHead, _ bytes: Span<UInt8>) throws(MessageFault) {
        guard hasHost else { throw .hostMissing }
        if let absoluteAuthority {
            let authority = bytes.extracting(head.authority.start..<head.authority.end)
            guard authority.equals(bytes.extracting(absoluteAuthority.start..<absoluteAuthority.end)) else {
                throw .targetDisagreesWithHost
            }
        }
        head.framing = try meanings.framing.framing(minorVersion: head.minorVersion) ?? .none
        if head.version == .http10, head.framing.hasContent {
            switch head.method {
            // RFC 1945 sections 8.1 and D.1.2: readers of that version expect no content, and take it for the next
            // request.
            case .get, .head, .delete: throw .contentUnexpected
            default: break
            }
        }
        if head.version == .http10 || !head.framing.hasContent { head.expectsContinue = false }
    }
}

/// The interpretation of request fields in any HTTP version: framing, fields that may occur only once, and fields that
/// the gateway answers.
struct RequestFields {
    private(set) var framing = FramingFields()
    /// A bit for each received field that may occur only once, by the raw value of its name.
    private var singletons: UInt64 = 0

    /// Takes a field.
    ///
    /// - Parameter bytes: the bytes to which the ranges of `field` refer.
    mutating func take(
        _ field: HeaderField, _ bytes: Span<UInt8>, _ head: inout RequestHead
    ) throws(MessageFault) {
        let range = field.valueRange
        switch field.name {
        case .contentLength: try framing.takeContentLength(bytes.extracting(range.start..<range.end))
        case .contentType, .authorization, .date, .ifMatch, .ifModifiedSince, .ifNoneMatch, .ifRange,
            .ifUnmodifiedSince, .origin, .range, .referer, .userAgent:
            // The code that checks the field and the code that uses it must read the same value (RFC 9110 section 5.3).
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

/// The authority of a request: `host` or `host:port` (RFC 9110 section 7.2), without user information.
enum Authority {
    /// Checks an authority.
    ///
    /// - Returns: the length of the host part, and the port. Nil if there is none.
    static func parse(_ authority: Span<UInt8>) throws(MessageFault) -> (hostLength: Int, port: UInt16?) {
        guard authority.count > 0, authority.count <= 255 + 6 else { throw .hostMalformed }
        let length = authority[0] == UInt8(ascii: "[") ? addressLength(authority) : nameLength(authority)
        guard length > 0 else { throw .hostMalformed }
        guard length < authority.count else { return (length, nil) }
        guard authority[length] == ByteClass.colon, let port = port(authority.extracting((length + 1)...)) else {
            throw .hostMalformed
        }
        return (length, port)
    }

    /// Returns the length of a name: labels of letters, digits and hyphens, separated by single dots. IPv4 addresses
    /// have this form too. A trailing dot is refused: it would be a second spelling of the same host.
    private static func nameLength(_ authority: Span<UInt8>) -> Int {
        var position = 0
        var labelStart = 0
        while position < authority.count, authority[position] != ByteClass.colon {
            let byte = authority[position]
            if byte == UInt8(ascii: ".") {
                guard position > labelStart else { return 0 }
                labelStart = position + 1
            } else if !ByteClass.isAlphanumeric(byte), byte != UInt8(ascii: "-") {
                return 0
            }
            position += 1
        }
        return position > labelStart ? position : 0
    }

    /// Returns the length of an IPv6 address in brackets. Its inner form does not matter here: routes compare it as
    /// text.
    private static func addressLength(_ authority: Span<UInt8>) -> Int {
        var position = 1
        while position < authority.count {
            let byte = authority[position]
            if byte == UInt8(ascii: "]") { return position > 2 ? position + 1 : 0 }
            guard Hexadecimal.value(byte) != nil || byte == ByteClass.colon || byte == UInt8(ascii: ".") else {
                return 0
            }
            position += 1
        }
        return 0
    }

    private static func port(_ digits: Span<UInt8>) -> UInt16? {
        guard (1...5).contains(digits.count), digits[0] != UInt8(ascii: "0") else { return nil }
        var port = 0
        for index in digits.indices {
            guard ByteClass.isDigit(digits[index]) else { return nil }
            port = port * 10 + Int(digits[index] - 0x30)
        }
        return UInt16(exactly: port)
    }
}
