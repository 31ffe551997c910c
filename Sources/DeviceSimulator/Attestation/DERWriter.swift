/// Writes the DER of a leaf's extensions (X.690): values of some hundred bytes.
enum DERWriter {
    static func sequence(_ parts: [[UInt8]]) -> [UInt8] { element([0x30], parts.flatMap(\.self)) }

    static func octetString(_ bytes: [UInt8]) -> [UInt8] { element([0x04], bytes) }

    /// [number] EXPLICIT.
    static func explicit(_ number: UInt16, _ content: [UInt8]) -> [UInt8] {
        guard number >= 31 else { return element([0xa0 | UInt8(number)], content) }
        let low = UInt8(number & 0x7f)
        let high = UInt8(number >> 7 & 0x7f)
        return element([0xbf] + (high == 0 ? [] : [high | 0x80]) + [low], content)
    }

    private static func element(_ tag: [UInt8], _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<0x80: tag + [UInt8(content.count)] + content
        case ..<0x100: tag + [0x81, UInt8(content.count)] + content
        default: tag + [0x82, UInt8(content.count >> 8), UInt8(content.count & 0xff)] + content
        }
    }
}
