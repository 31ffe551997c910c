internal import Encoding

/// Spellings of targets that a route may accept beyond the strict one.
public struct TargetForms: OptionSet, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// In the path: percent-encoded unreserved characters, lower-case hexadecimal digits, and `[`, `]`, `^`, `|` as
    /// they are.
    public static let commonPath = TargetForms(rawValue: 1)
    /// An empty query, or one with the characters that browsers leave as they are (WHATWG URL, the query
    /// percent-encode set).
    public static let commonQuery = TargetForms(rawValue: 2)
    /// `;` in the path.
    public static let semicolon = TargetForms(rawValue: 4)
    /// `%2F` in the path.
    public static let encodedSlash = TargetForms(rawValue: 8)
    /// `%3B` in the path.
    public static let encodedSemicolon = TargetForms(rawValue: 16)

    public static let common: TargetForms = [.commonPath, .commonQuery]

    /// Whether services may read the path in several ways.
    public var concernPath: Bool { !isDisjoint(with: [.commonPath, .semicolon, .encodedSlash, .encodedSemicolon]) }
}

/// The first byte of a target that no admitted form explains.
public struct TargetFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// `pathSpelling` or `querySpelling`.
    public let kind: MessageFault
    public let byte: UInt8
    private let place: UInt16
    /// The place of the byte, counted from the first byte of the path.
    public var offset: Int { Int(place) }

    init(_ kind: MessageFault, _ byte: UInt8, at offset: Int) {
        self.kind = kind
        self.byte = byte
        // Heads are shorter than 64 KiB (`HeadLimits`).
        place = UInt16(clamping: offset)
    }

    /// The byte and its place for the log, without any content of the target.
    public var description: String {
        let digits = String(byte, radix: 16)
        return "byte 0x\(byte < 0x10 ? "0" : "")\(digits) at offset \(offset) of the target"
    }
}

/// The spelling of paths and queries.
///
/// The code that authorises a request and the code that executes it must read the same path. RFC 3986 allows two
/// spellings of one resource, and one spelling of two. The strict spelling refuses all such cases:
///
/// - empty and dot segments, `;` and `%3B`, and an empty query
/// - percent-encoded bytes that need no encoding (dots and slashes in disguise among them), and lower-case hexadecimal
/// - `%25` (double decoding), and encoded bytes that are not UTF-8 (overlong forms are slashes in disguise, too)
///
/// `TargetForms` admit some of them, but never a segment that is empty or dots in any reading.
public enum TargetSpelling {
    /// Checks a path.
    ///
    /// - Parameters:
    ///   - path: the path, which starts with `/`.
    ///   - admitted: the forms that are accepted beyond the strict spelling.
    /// - Returns: the forms that the path has.
    public static func check(
        path: Span<UInt8>, admitting admitted: TargetForms = []
    ) throws(TargetFault) -> TargetForms {
        var found: TargetForms = []
        var segmentStart = 1
        var position = 1
        while position < path.count {
            let byte = path[position]
            if ByteClass.isPathCharacter(byte) {
                position += 1
            } else if byte == slash {
                guard position > segmentStart, !isDots(path, segmentStart, position) else {
                    throw fault(path, at: segmentStart)
                }
                position += 1
                segmentStart = position
            } else {
                guard let (length, forms) = special(path, at: position), admitted.isSuperset(of: forms) else {
                    throw fault(path, at: position)
                }
                found.formUnion(forms)
                position += length
            }
        }
        // An empty last segment is the usual `/a/`; dots there would climb as anywhere else.
        guard !isDots(path, segmentStart, path.count) else { throw fault(path, at: segmentStart) }
        if !found.isEmpty { try checkDecodedSegments(path) }
        return found
    }

    /// Checks a query.
    ///
    /// - Parameters:
    ///   - query: the query without the `?`.
    ///   - start: the place of its first byte, counted from the first byte of the path.
    ///   - admitted: the forms that are accepted beyond the strict spelling.
    /// - Returns: the forms that the query has.
    public static func check(
        query: Span<UInt8>, at start: Int = 0, admitting admitted: TargetForms = []
    ) throws(TargetFault) -> TargetForms {
        guard query.count > 0 else {
            guard admitted.contains(.commonQuery) else {
                throw TargetFault(.querySpelling, question, at: start - 1)
            }
            return .commonQuery
        }
        var found: TargetForms = []
        var position = 0
        while position < query.count {
            let byte = query[position]
            if ByteClass.isPathCharacter(byte) || byte == slash || byte == question || byte == semicolon {
                position += 1
            } else if byte == percent, let value = encodedByte(query, at: position), value != 0 {
                position += 3
            } else if admitted.contains(.commonQuery), ByteClass.isRawInQuery(byte) {
                found = .commonQuery
                position += 1
            } else {
                throw TargetFault(.querySpelling, byte, at: start + position)
            }
        }
        return found
    }

    /// Returns the paths that services may read in one that was checked, without the path itself.
    ///
    /// All decode what needs no encoding. With `;` some drop from there to the end of the segment; others do so with
    /// `%3B`, too. With `%2F` some take it for a separator, before or after that.
    ///
    /// - Parameter forms: the forms of the path.
    public static func readings(of path: Span<UInt8>, with forms: TargetForms) -> [[UInt8]] {
        var readings = [reading(of: path, parameters: .kept, splitsAtEncodedSlash: false)]
        var starts: [ParameterStart] = forms.contains(.semicolon) ? [.semicolon] : []
        if forms.contains(.encodedSemicolon) { starts.append(.anySemicolon) }
        for start in starts {
            readings.append(reading(of: path, parameters: .toSlash(start), splitsAtEncodedSlash: false))
        }
        guard forms.contains(.encodedSlash) else { return readings }
        readings.append(reading(of: path, parameters: .kept, splitsAtEncodedSlash: true))
        for start in starts {
            readings.append(reading(of: path, parameters: .toSlash(start), splitsAtEncodedSlash: true))
            readings.append(reading(of: path, parameters: .toAnySlash(start), splitsAtEncodedSlash: true))
        }
        return readings
    }

    private static let slash = UInt8(ascii: "/")
    private static let percent = UInt8(ascii: "%")
    private static let question = UInt8(ascii: "?")
    private static let semicolon = UInt8(ascii: ";")
    private static let backslash = UInt8(ascii: "\\")
    private static let dot = UInt8(ascii: ".")

    private static func fault(_ path: Span<UInt8>, at position: Int) -> TargetFault {
        TargetFault(.pathSpelling, path[min(position, path.count - 1)], at: position)
    }

    private static func isDots(_ path: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        switch end - start {
        case 1: path[start] == dot
        case 2: path[start] == dot && path[start + 1] == dot
        default: false
        }
    }

    // MARK: - Other characters

    /// Returns the length of a character that is none of `isPathCharacter`, and the forms that admit it. Nil if none
    /// does.
    private static func special(_ path: Span<UInt8>, at position: Int) -> (length: Int, forms: TargetForms)? {
        switch path[position] {
        case percent: return encoded(path, at: position)
        case semicolon: return (1, .semicolon)
        case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "^"), UInt8(ascii: "|"): return (1, .commonPath)
        default: return nil
        }
    }

    /// Returns the length of an encoded character: 3 bytes in ASCII, else 3 for each byte of its UTF-8.
    ///
    /// - Returns: nil for a control character, `%25`, `%5C`, and malformed UTF-8 (`%C0%AF` is a slash to a careless
    ///   decoder).
    private static func encoded(_ path: Span<UInt8>, at position: Int) -> (length: Int, forms: TargetForms)? {
        guard let first = encodedByte(path, at: position) else { return nil }
        var forms: TargetForms = isUpperCase(path, at: position) ? [] : .commonPath
        if first < 0x80 {
            guard first > 0x1f, first != 0x7f, first != percent, first != backslash else { return nil }
            if ByteClass.isUnreserved(first) { forms = .commonPath }
            if first == slash { forms.insert(.encodedSlash) }
            if first == semicolon { forms.insert(.encodedSemicolon) }
            return (3, forms)
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
            let place = position + 3 * index
            guard let value = encodedByte(path, at: place), (index == 1 ? second : 0x80...0xbf).contains(value) else {
                return nil
            }
            if !isUpperCase(path, at: place) { forms = .commonPath }
        }
        return (3 * (more + 1), forms)
    }

    /// Returns whether the digits of an encoded byte are in upper case.
    private static func isUpperCase(_ path: Span<UInt8>, at position: Int) -> Bool {
        // Lower-case letters start at 0x61; they are the only hexadecimal digits above 0x60.
        path[position + 1] < 0x60 && path[position + 2] < 0x60
    }

    private static func encodedByte(_ bytes: Span<UInt8>, at position: Int) -> UInt8? {
        guard position + 2 < bytes.count, bytes[position] == percent,
            let high = Hexadecimal.value(bytes[position + 1]), let low = Hexadecimal.value(bytes[position + 2])
        else { return nil }
        return high << 4 | low
    }

    // MARK: - Readings of services

    /// Refuses segments that are empty or dots when everything is decoded, `%2F` is a separator, and parameters behind
    /// `;` or `%3B` are dropped.
    private static func checkDecodedSegments(_ path: Span<UInt8>) throws(TargetFault) {
        var (start, position) = (1, 1)
        var (length, dots) = (0, 0)
        var isParameter = false
        while true {
            let isEnd = position >= path.count
            let value = isEnd ? slash : encodedByte(path, at: position)
            let byte = isEnd ? slash : value ?? path[position]
            if byte == slash {
                let isClimbing = length == dots && (1...2).contains(length)
                guard !isClimbing, length > 0 || isEnd else { throw fault(path, at: start) }
                guard !isEnd else { return }
                (length, dots, isParameter) = (0, 0, false)
                start = position + (value == nil ? 1 : 3)
            } else if byte == semicolon {
                isParameter = true
            } else if !isParameter {
                length += 1
                if byte == dot { dots += 1 }
            }
            position += value == nil ? 1 : 3
        }
    }

    private enum ParameterStart {
        case semicolon
        /// `;` or `%3B`.
        case anySemicolon
    }

    /// The reading of what follows `;`.
    private enum Parameters {
        /// It is a part of the segment.
        case kept
        /// It is dropped up to the next `/`.
        case toSlash(ParameterStart)
        /// It is dropped up to the next `/` or `%2F`.
        case toAnySlash(ParameterStart)

        var start: ParameterStart? {
            switch self {
            case .kept: nil
            case .toSlash(let start), .toAnySlash(let start): start
            }
        }

        var endsAtEncodedSlash: Bool { if case .toAnySlash = self { true } else { false } }
    }

    private static func reading(
        of path: Span<UInt8>, parameters: Parameters, splitsAtEncodedSlash: Bool
    ) -> [UInt8] {
        var reading: [UInt8] = []
        reading.reserveCapacity(path.count)
        var isDropping = false
        var position = 0
        while position < path.count {
            let value = encodedByte(path, at: position)
            let byte = value ?? path[position]
            position += value == nil ? 1 : 3
            if byte == slash, value == nil || parameters.endsAtEncodedSlash { isDropping = false }
            if byte == semicolon, let start = parameters.start, value == nil || start == .anySemicolon {
                isDropping = true
            }
            guard !isDropping else { continue }
            let isPlain =
                value == nil
                ? ByteClass.isPathCharacter(byte) || byte == slash || byte == semicolon
                : ByteClass.isUnreserved(byte) || byte == slash && splitsAtEncodedSlash
            if isPlain {
                reading.append(byte)
            } else {
                reading.append(percent)
                reading.append(upperCaseDigit(byte >> 4))
                reading.append(upperCaseDigit(byte & 15))
            }
        }
        return reading
    }

    private static func upperCaseDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }
}
