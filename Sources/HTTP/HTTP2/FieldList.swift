internal import Bytes
internal import CNghttp2

/// Fields in the form of nghttp2, made from lines `name: value CR LF` as in HTTP/1.1.
///
/// The lines come from this program or from a parsed message, so they are not checked again. nghttp2 copies them, with
/// names in lower case (RFC 9113 section 8.2).
@safe struct FieldList {
    /// The fields, kept for their capacity. Their pointers are valid only within `withFields`.
    private var entries: [nghttp2_nv] = unsafe []
    private let table = FieldNameTable.shared
    /// The lengths of the names that `isOfStream` checks: a bit for each length.
    private let responseLengths = Self.lengths(of: Self.connectionFields)
    private let requestLengths = Self.lengths(of: Self.connectionFields + [.host, .http2Settings, .te])

    /// Calls a function with the fields of a response or of trailers.
    ///
    /// - Parameter lines: the lines, behind the three digits of the status if `hasStatus`.
    mutating func withFields(
        of lines: Span<UInt8>, hasStatus: Bool, _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        unsafe entries.removeAll(keepingCapacity: true)
        unsafe lines.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return }
            if hasStatus { unsafe append(Self.status, start, 3, .indexed) }
            unsafe appendLines(bytes, start, from: hasStatus ? 3 : 0, .indexed, isRequest: false)
            unsafe entries.withUnsafeBufferPointer(body)
        }
    }

    /// Calls a function with the fields of a request.
    ///
    /// The requests of many clients share a connection. So no field enters the compression table, where the length of
    /// another client's fields would reveal it (RFC 7541 section 7.1).
    ///
    /// - Parameters:
    ///   - bytes: the authority, the target, and lines.
    ///   - authorityEnd: the beginning of the target.
    ///   - targetEnd: the beginning of the lines.
    mutating func withRequest(
        _ method: StaticString, _ scheme: StaticString, in bytes: Span<UInt8>, authorityEnd: Int, targetEnd: Int,
        _ body: (UnsafeBufferPointer<nghttp2_nv>) -> Void
    ) {
        unsafe entries.removeAll(keepingCapacity: true)
        unsafe bytes.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return }
            unsafe append(Self.method, method.utf8Start, method.utf8CodeUnitCount, .indexed)
            unsafe append(Self.scheme, scheme.utf8Start, scheme.utf8CodeUnitCount, .indexed)
            unsafe append(Self.authority, start, authorityEnd, .literal)
            unsafe append(Self.path, start + authorityEnd, targetEnd - authorityEnd, .literal)
            unsafe appendLines(bytes, start, from: targetEnd, .literal, isRequest: true)
            unsafe entries.withUnsafeBufferPointer(body)
        }
    }

    private mutating func appendLines(
        _ bytes: UnsafeBufferPointer<UInt8>, _ start: UnsafePointer<UInt8>, from first: Int, _ indexing: Indexing,
        isRequest: Bool
    ) {
        let lines = unsafe bytes.span
        var position = first
        while position < bytes.count {
            var colon = position
            while unsafe bytes[colon] != ByteClass.colon { colon += 1 }
            var end = colon
            while unsafe bytes[end] != ByteClass.carriageReturn { end += 1 }
            let name = lines.extracting(position..<colon)
            if isOfStream(name, lines.extracting((colon + 2)..<end), isRequest: isRequest) {
                unsafe append(start + position, colon - position, start + colon + 2, end - colon - 2, indexing)
            }
            position = end + 2
        }
    }

    /// Returns whether a field may be sent in HTTP/2 (RFC 9113 section 8.2.2). A forwarded HTTP/1.1 message may contain
    /// others. `:authority` replaces Host (section 8.3.1).
    private func isOfStream(_ name: Span<UInt8>, _ value: Span<UInt8>, isRequest: Bool) -> Bool {
        // Most fields have names with other lengths.
        guard (isRequest ? requestLengths : responseLengths) & (1 << UInt64(name.count)) != 0 else { return true }
        switch table.find(name) {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: return false
        case .host, .http2Settings: return !isRequest
        case .te where isRequest: return StreamField.admitsTrailersAlone(value)
        default: return true
        }
    }

    private static let connectionFields: [FieldName] = [
        .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade,
    ]

    private static func lengths(of names: [FieldName]) -> UInt64 {
        names.reduce(0) { $0 | 1 << UInt64($1.lowercase.utf8CodeUnitCount) }
    }

    /// Whether a field may enter the connection's compression table.
    private enum Indexing {
        case indexed, literal

        var flag: UInt8 {
            switch self {
            case .indexed: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
            case .literal: UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
            }
        }
    }

    private mutating func append(
        _ name: StaticString, _ value: UnsafePointer<UInt8>, _ valueLength: Int, _ indexing: Indexing
    ) {
        unsafe append(name.utf8Start, name.utf8CodeUnitCount, value, valueLength, indexing)
    }

    private mutating func append(
        _ name: UnsafePointer<UInt8>, _ nameLength: Int, _ value: UnsafePointer<UInt8>, _ valueLength: Int,
        _ indexing: Indexing
    ) {
        // nghttp2 does not write to them.
        unsafe entries.append(
            nghttp2_nv(
                name: UnsafeMutablePointer(mutating: name), value: UnsafeMutablePointer(mutating: value),
                namelen: nameLength, valuelen: valueLength, flags: indexing.flag))
    }

    private static let status: StaticString = ":status"
    private static let method: StaticString = ":method"
    private static let scheme: StaticString = ":scheme"
    private static let authority: StaticString = ":authority"
    private static let path: StaticString = ":path"
}

/// The rules for every HTTP/2 field in heads and trailers (RFC 9113 section 8.2), and the rules for names and values of
/// HTTP/1.1's parser.
enum StreamField {
    /// Checks a field.
    ///
    /// - Returns: the known name, and whether the name is unusual (`HeaderField.hasUnusualName`).
    static func check(
        _ name: Span<UInt8>, _ value: Span<UInt8>, _ table: FieldNameTable
    ) throws(MessageFault) -> (known: FieldName, isUnusual: Bool) {
        let isUnusual = try check(name: name)
        let known = table.find(name)
        // A value consists of VCHAR, obs-text, space and tab (RFC 9110 section 5.5): tab is the one control character.
        var position = value.firstControl(from: 0)
        while position < value.count, value[position] == ByteClass.tab {
            position = value.firstControl(from: position + 1)
        }
        guard position == value.count else { throw .fieldValueMalformed }
        // Section 8.2.1: unlike in HTTP/1.1 it is not removed, so it would be a second spelling.
        if value.count > 0, FieldLine.isBlank(value[0]) || FieldLine.isBlank(value[value.count - 1]) {
            throw .fieldValueMalformed
        }
        switch known {
        // Section 8.2.2.
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: throw .fieldOfConnection
        case .te: guard admitsTrailersAlone(value) else { throw .fieldOfConnection }
        default: break
        }
        return (known, isUnusual)
    }

    /// Returns whether the value is `trailers`, the only TE of HTTP/2.
    fileprivate static func admitsTrailersAlone(_ te: Span<UInt8>) -> Bool { te.equals(trailers.span) }

    /// Checks a name.
    ///
    /// - Returns: whether it is unusual.
    private static func check(name: Span<UInt8>) throws(MessageFault) -> Bool {
        var isUnusual = false
        guard name.count > 0 else { throw .fieldNameMalformed }
        for index in name.indices {
            let byte = name[index]
            // Nearly all names consist of these alone.
            if byte &- UInt8(ascii: "a") < 26 || byte == UInt8(ascii: "-") { continue }
            guard ByteClass.isToken(byte) else { throw .fieldNameMalformed }
            guard ByteClass.lowercased(byte) == byte else { throw .fieldNameUpperCase }
            if !ByteClass.isPlainInName(byte) { isUnusual = true }
        }
        return isUnusual
    }

    private static let trailers = Array("trailers".utf8)
}
