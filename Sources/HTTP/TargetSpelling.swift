internal import Encoding

/// The canonical spelling of paths and queries.
///
/// The code that authorises a request and the code that executes it must read the same path. RFC 3986 allows two
/// spellings of one resource, and one spelling of two. All such cases are refused:
///
/// - empty and dot segments, `;`, and an empty query
/// - percent-encoded bytes that need no encoding (dots and slashes in disguise among them), and lower-case hexadecimal
/// - `%25` (double decoding), and encoded bytes that are not UTF-8 (overlong forms are slashes in disguise, too)
public enum TargetSpelling {
    /// Checks a path.
    ///
    /// - Parameter path: the path, which starts with `/`.
    public static func check(path: Span<UInt8>) throws(MessageFault) {
        guard path.count > 0, path[0] == slash else { throw .targetForm }
        var segmentStart = 1
        var position = 1
        while position < path.count {
            let byte = path[position]
            if ByteClass.isPathCharacter(byte) {
                position += 1
            } else if byte == slash {
                guard position > segmentStart, !isDots(path, segmentStart, position) else { throw .pathSpelling }
                position += 1
                segmentStart = position
            } else {
                guard byte == percent, let length = encodedLength(path, at: position) else { throw .pathSpelling }
                position += length
            }
        }
        // An empty last segment is the usual `/a/`; dots there would climb as anywhere else.
        guard !isDots(path, segmentStart, path.count) else { throw .pathSpelling }
    }

    /// Checks a query.
    ///
    /// - Parameter query: the query without the `?`.
    public static func check(query: Span<UInt8>) throws(MessageFault) {
        guard query.count > 0 else { throw .querySpelling }
        var position = 0
        while position < query.count {
            let byte = query[position]
            if ByteClass.isPathCharacter(byte) || byte == slash || byte == question || byte == semicolon {
                position += 1
            } else {
                guard byte == percent, let value = encodedByte(query, at: position), value != 0 else {
                    throw .querySpelling
                }
                position += 3
            }
        }
    }

    private static let slash = UInt8(ascii: "/")
    private static let percent = UInt8(ascii: "%")
    private static let question = UInt8(ascii: "?")
    private static let semicolon = UInt8(ascii: ";")

    private static func isDots(_ path: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        switch end - start {
        case 1: path[start] == UInt8(ascii: ".")
        case 2: path[start] == UInt8(ascii: ".") && path[start + 1] == UInt8(ascii: ".")
        default: false
        }
    }

    /// Returns the length of the encoded character at `position`: 3 bytes for an ASCII character that must be encoded
    /// and is harmless when decoded, else 3 for each byte of its UTF-8.
    ///
    /// - Returns: nil for everything with another spelling: lower-case hexadecimal, needless encoding, and malformed
    ///   UTF-8 (`%C0%AF` is a slash to a careless decoder).
    private static func encodedLength(_ path: Span<UInt8>, at position: Int) -> Int? {
        guard let first = upperCaseByte(path, at: position) else { return nil }
        if first < 0x80 {
            let isPlain = ByteClass.isUnreserved(first) || first <= 0x1f || first == 0x7f
            return isPlain || first == percent || first == slash || first == UInt8(ascii: "\\") ? nil : 3
        }
        // RFC 3629 section 4: the number of bytes that follow, and the range of the first of them.
        let more: Int
        let second: ClosedRange<UInt8>
        switch first {
        case 0xc2...0xdf: (more, second) = (1, 0x80...0xbf)
        case 0xe0: (more, second) = (2, 0xa0...0xbf)
        case 0xed: (more, second) = (2, 0x80...0x9f)
        case 0xe1...0xef: (more, second) = (2, 0x80...0xbf)
        case 0xf0: (more, second) = (3, 0x90...0xbf)
        case 0xf1...0xf3: (more, second) = (3, 0x80...0xbf)
        case 0xf4: (more, second) = (3, 0x80...0x8f)
        default: return nil
        }
        for index in 1...more {
            guard let value = upperCaseByte(path, at: position + 3 * index),
                (index == 1 ? second : 0x80...0xbf).contains(value)
            else { return nil }
        }
        return 3 * (more + 1)
    }

    private static func upperCaseByte(_ path: Span<UInt8>, at position: Int) -> UInt8? {
        guard position + 2 < path.count, path[position] == percent else { return nil }
        // Lower-case letters start at 0x61; they are the only hexadecimal digits above 0x60.
        guard path[position + 1] < 0x60, path[position + 2] < 0x60 else { return nil }
        return encodedByte(path, at: position)
    }

    private static func encodedByte(_ bytes: Span<UInt8>, at position: Int) -> UInt8? {
        guard position + 2 < bytes.count, let high = Hexadecimal.value(bytes[position + 1]),
            let low = Hexadecimal.value(bytes[position + 2])
        else { return nil }
        return high << 4 | low
    }
}
