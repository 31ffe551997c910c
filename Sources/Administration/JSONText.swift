internal import Foundation

/// JSON encoding and decoding.
public enum JSONText {
    /// Encodes a value. Members are sorted by name, so that equal values have equal texts.
    public static func encode(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else {
            preconditionFailure("documents contain only text and integers")
        }
        return Array(data)
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from text: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text))
    }

    /// Parses an object of unique text members.
    ///
    /// - Parameter admitted: The permitted names. Others are refused, because they would have no effect.
    static func members(of text: [UInt8], admitted: [String]) throws(AdministrationFault) -> [String: String] {
        // JSON text contains no NUL, but every other encoding that a decoder might detect does.
        guard String(validating: text, as: UTF8.self) != nil, !text.contains(0),
            let members = try? decode([String: String].self, from: text)
        else { throw .badRequest("The content must be a JSON object whose members are text.") }
        if let unknown = members.keys.sorted().first(where: { !admitted.contains($0) }) {
            let known = admitted.joined(separator: ", ")
            throw .badRequest("The member '\(unknown.prefix(40))' is unknown; known members are \(known).")
        }
        // The decoder keeps one of several equal names. In an object of text, each member has two strings.
        guard strings(in: text) == 2 * members.count else { throw .badRequest("A member occurs twice.") }
        return members
    }

    /// Counts the strings.
    ///
    /// - Parameter text: Well-formed JSON.
    private static func strings(in text: [UInt8]) -> Int {
        var quotes = 0
        var isEscaped = false
        for byte in text {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true  // outside strings there are none
            } else if byte == UInt8(ascii: "\"") {
                quotes += 1
            }
        }
        return quotes / 2
    }
}

/// Times in RFC 3339, UTC.
public enum Timestamp {
    /// Returns a text such as `2026-11-21T06:45:00Z`.
    ///
    /// - Parameter seconds: Since 1970-01-01T00:00:00Z.
    static func text(of seconds: Int64) -> String {
        Date(timeIntervalSince1970: TimeInterval(seconds)).formatted(.iso8601)
    }

    /// Returns a text such as `2026-11-21T06:45:00.123Z`.
    ///
    /// - Parameter microseconds: Since 1970-01-01T00:00:00Z.
    public static func milliseconds(of microseconds: Int64) -> String {
        let rest = String(microseconds / 1_000 % 1_000)
        return text(of: microseconds / 1_000_000).dropLast() + "." + String(repeating: "0", count: 3 - rest.count)
            + rest + "Z"
    }
}
