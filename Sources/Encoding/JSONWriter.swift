/// The writer of an object in JSON (RFC 8259). Members are written in the order of the calls.
package struct JSONWriter {
    /// What is written. It is complete after `object`.
    private var bytes: [UInt8] = []
    private var needsComma = false

    private init() {}

    /// Returns an object.
    ///
    /// - Parameter members: Writes the members.
    package static func object(_ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.bytes.reserveCapacity(1024)
        writer.nested("{", "}", members)
        return writer.bytes
    }

    /// Writes a member that is an object.
    ///
    /// - Parameter keepsEmpty: Whether an object without members is written.
    package mutating func object(_ name: String, keepsEmpty: Bool = false, _ members: (inout JSONWriter) -> Void) {
        let (start, comma) = (bytes.count, needsComma)
        begin(name)
        let content = bytes.count + 1
        nested("{", "}", members)
        guard !keepsEmpty, bytes.count == content + 1 else { return }
        bytes.removeLast(bytes.count - start)
        needsComma = comma
    }

    /// Writes a member that is a text. Without a text nothing is written.
    package mutating func member(_ name: String, _ text: String?) {
        guard let text else { return }
        begin(name)
        Self.append(text, to: &bytes)
    }

    package mutating func member(_ name: String, _ flag: Bool?) {
        if let flag { literal(name, flag ? "true" : "false") }
    }

    package mutating func member(_ name: String, _ number: (some BinaryInteger)?) {
        if let number { literal(name, String(number)) }
    }

    /// Writes a member that is an array of texts.
    package mutating func member(_ name: String, _ texts: [String]) {
        begin(name)
        nested("[", "]") { writer in
            for text in texts {
                writer.separate()
                Self.append(text, to: &writer.bytes)
            }
        }
    }

    /// Writes a member that is an array of objects.
    package mutating func member(_ name: String, _ objects: [(inout JSONWriter) -> Void]) {
        begin(name)
        nested("[", "]") { writer in
            for members in objects {
                writer.separate()
                writer.nested("{", "}", members)
            }
        }
    }

    /// Writes a member whose value is JSON already.
    package mutating func member(_ name: String, json: [UInt8]) {
        begin(name)
        bytes += json
    }

    private mutating func literal(_ name: String, _ text: String) {
        begin(name)
        bytes += text.utf8
    }

    private mutating func begin(_ name: String) {
        separate()
        Self.append(name, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func nested(
        _ opening: Unicode.Scalar, _ closing: Unicode.Scalar, _ content: (inout JSONWriter) -> Void
    ) {
        bytes.append(UInt8(ascii: opening))
        needsComma = false
        content(&self)
        needsComma = true
        bytes.append(UInt8(ascii: closing))
    }

    /// Returns a text with quotes. Quotes, backslashes and control characters are escaped.
    package static func quoted(_ text: String) -> String {
        var bytes: [UInt8] = []
        append(text, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case UInt8(ascii: "\n"):
                bytes += "\\n".utf8
            case ..<0x20, 0x7f:
                bytes += "\\u".utf8
                bytes += Hexadecimal.encode(UInt16(byte), digits: 4).utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}
