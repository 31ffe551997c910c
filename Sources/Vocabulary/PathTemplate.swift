internal import Encoding

/// A pattern of paths, such as `/todos/{id}`. A variable stands for one segment.
public struct PathTemplate: Hashable, Sendable {
    private enum Segment: Hashable {
        case literal([UInt8])
        case variable(String)

        var name: String? { if case .variable(let name) = self { name } else { nil } }
    }

    public let text: String
    private let segments: [Segment]

    /// Limits of segments, and of a variable's name in bytes.
    public static let segmentLimit = 32
    public static let nameLimit = 32

    /// Parses a template.
    ///
    /// - Parameter text: `/` and segments with single slashes between them. A segment is `{NAME}`, or consists of the
    ///   characters of a path. Names are letters, digits and `_`; no name occurs twice.
    /// - Returns: nil for other texts.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.first == UInt8(ascii: "/") else { return nil }
        var segments: [Segment] = []
        for part in bytes.count == 1 ? [] : Self.parts(of: bytes[...]) {
            guard segments.count < Self.segmentLimit, let segment = Self.segment(part),
                segment.name == nil || !segments.contains(segment)
            else { return nil }
            segments.append(segment)
        }
        self.text = text
        self.segments = segments
    }

    private static func parts(of path: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        path.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    }

    private static func segment(_ part: ArraySlice<UInt8>) -> Segment? {
        if part.first == UInt8(ascii: "{"), part.last == UInt8(ascii: "}") {
            let name = part.dropFirst().dropLast()
            guard (1...nameLimit).contains(name.count), name.allSatisfy(isNameByte) else { return nil }
            return .variable(String(decoding: name, as: UTF8.self))
        }
        let others = Set("-._~%!$&'()*+,;=:@".utf8)
        guard !part.isEmpty, part.allSatisfy({ isNameByte($0) || others.contains($0) }) else { return nil }
        return .literal(Array(part))
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// The names of the variables in the order of the path.
    public var variables: [String] { segments.compactMap(\.name) }

    /// Returns the variables of a path with their values.
    ///
    /// - Parameter path: As requests have it. Literal segments are compared byte by byte. Values are decoded.
    /// - Returns: nil for a path of another form. A value that is empty, or decodes to something other than UTF-8, to a
    ///   slash or to a control character, is of another form.
    public func match(_ path: String) -> [(name: String, value: String)]? {
        let bytes = Array(path.utf8)
        guard bytes.first == UInt8(ascii: "/") else { return nil }
        let parts = bytes.count == 1 ? [] : Self.parts(of: bytes[...])
        guard parts.count == segments.count else { return nil }
        var values: [(name: String, value: String)] = []
        for (segment, part) in zip(segments, parts) {
            switch segment {
            case .literal(let literal): guard part.elementsEqual(literal) else { return nil }
            case .variable(let name):
                guard !part.isEmpty, let decoded = PercentEncoding.decode(part),
                    !decoded.contains(where: { $0 < 0x20 || $0 == 0x7f || $0 == UInt8(ascii: "/") })
                else { return nil }
                let value = String(decoding: decoded, as: UTF8.self)
                // iOS 14 has nothing that validates: what was repaired is longer, or other bytes.
                guard value.utf8.elementsEqual(decoded) else { return nil }
                values.append((name, value))
            }
        }
        return values
    }
}

/// Percent-encoding (RFC 3986 section 2.1).
package enum PercentEncoding {
    /// Returns the bytes for which a text stands.
    ///
    /// - Parameter plus: The byte for which a plus sign stands: a space in queries.
    /// - Returns: nil if two hexadecimal digits do not follow each `%`.
    package static func decode(_ text: some Collection<UInt8>, plus: UInt8 = UInt8(ascii: "+")) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap({ Hexadecimal.value($0) }),
                    let low = rest.next().flatMap({ Hexadecimal.value($0) })
                else { return nil }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+"): bytes.append(plus)
            default: bytes.append(byte)
            }
        }
        return bytes
    }
}
