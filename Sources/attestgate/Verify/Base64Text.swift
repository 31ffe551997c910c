internal import Foundation

/// Base64 as people paste it: with line breaks, with or without padding, in either alphabet (RFC 4648 sections 4 and 5).
struct Base64Text {
    let bytes: [UInt8]
    /// It uses `-` or `_`.
    let isURLAlphabet: Bool

    /// Nil if it is no base64: other characters, or a length that none has.
    init?(_ text: String) {
        var characters = text.filter { !$0.isWhitespace }
        while characters.last == "=" { characters.removeLast() }
        isURLAlphabet = characters.contains("-") || characters.contains("_")
        let standard = characters.replacing("-", with: "+").replacing("_", with: "/")
        guard standard.utf8.count % 4 != 1 else { return nil }
        let padded = standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded) else { return nil }
        bytes = Array(data)
    }

    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    static func encodeURL(_ bytes: [UInt8]) -> String {
        encode(bytes).replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
