/// A JSON value (RFC 8259).
///
/// Text is UTF-8, not `String`: strings of Swift are equal when they look alike (the Kelvin sign is a K), and what is
/// compared here are identifiers, URLs and algorithm names.
package enum JSONValue: Equatable, Sendable {
    case object(JSONObject)
    case array([JSONValue])
    /// UTF-8, escapes replaced.
    case text([UInt8])
    /// A number without fraction and exponent that fits.
    case integer(Int64)
    /// Any other number. Nothing here takes one, so it is not kept.
    case number
    case boolean(Bool)
    case null

    package var object: JSONObject? { if case .object(let object) = self { object } else { nil } }
    package var text: [UInt8]? { if case .text(let text) = self { text } else { nil } }
    package var integer: Int64? { if case .integer(let integer) = self { integer } else { nil } }

    /// Whether this is exactly this text, byte by byte.
    package func spells(_ text: String) -> Bool {
        self.text.map { $0.elementsEqual(text.utf8) } ?? false
    }
}

/// A JSON object, each name once.
package struct JSONObject: Equatable, Sendable {
    package struct Member: Equatable, Sendable {
        /// UTF-8, escapes replaced.
        package let name: [UInt8]
        package let value: JSONValue
    }

    /// In the order they came in.
    package private(set) var members: [Member] = []

    /// - Returns: false if the name is taken; then nothing is added.
    mutating func add(_ name: [UInt8], _ value: JSONValue) -> Bool {
        guard !members.contains(where: { $0.name == name }) else { return false }
        members.append(Member(name: name, value: value))
        return true
    }

    package subscript(_ name: String) -> JSONValue? {
        members.first { $0.name.elementsEqual(name.utf8) }?.value
    }

    /// Whether every name is one of these.
    package func hasOnly(_ names: [String]) -> Bool {
        members.allSatisfy { member in names.contains { member.name.elementsEqual($0.utf8) } }
    }
}
