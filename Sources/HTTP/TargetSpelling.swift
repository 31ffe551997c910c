/// The one admitted spelling of paths and queries.
///
/// Whatever authorises a request and whatever executes it must read the same path. Every freedom of RFC 3986 that lets
/// two spellings mean one resource, or one spelling two, is therefore refused: empty and dot segments, `;`,
/// percent-encoded octets that need no encoding (dots and slashes in disguise among them), `%25` (double decoding),
/// lower-case hexadecimal, an empty query.
public enum TargetSpelling {
    /// - Parameter path: starts with `/`.
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
                guard byte == percent, isNeededEncoding(path, at: position) else { throw .pathSpelling }
                position += 3
            }
        }
        // An empty last segment is the usual `/a/`; dots there would climb as anywhere else.
        guard !isDots(path, segmentStart, path.count) else { throw .pathSpelling }
    }

    /// - Parameter query: without the `?`.
    public static func check(query: Span<UInt8>) throws(MessageFault) {
        guard query.count > 0 else { throw .querySpelling }
        var position = 0
        while position < query.count {
            let byte = query[position]
            if ByteClass.isPathCharacter(byte) || byte == slash || byte == question || byte == semicolon {
                position += 1
            } else {
                guard byte == percent, let octet = encodedOctet(query, at: position), octet != 0 else {
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

    /// Whether the octet encoded at `position` is written in upper-case hexadecimal, had to be encoded, and is none that
    /// changes meaning when decoded.
    private static func isNeededEncoding(_ path: Span<UInt8>, at position: Int) -> Bool {
        guard let octet = encodedOctet(path, at: position) else { return false }
        // Lower-case letters start at 0x61; they are the only hexadecimal digits above 0x60.
        let isUpperCase = path[position + 1] < 0x60 && path[position + 2] < 0x60
        return isUpperCase && !ByteClass.isUnreserved(octet) && octet > 0x1f && octet != 0x7f
            && octet != percent && octet != slash && octet != UInt8(ascii: "\\")
    }

    private static func encodedOctet(_ bytes: Span<UInt8>, at position: Int) -> UInt8? {
        guard position + 2 < bytes.count, let high = ByteClass.hexadecimal(bytes[position + 1]),
            let low = ByteClass.hexadecimal(bytes[position + 2])
        else { return nil }
        return high << 4 | low
    }
}
