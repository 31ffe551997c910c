/// Writes DER as the tests need it.
enum DERWriting {
    static func item(_ tag: [UInt8], _ content: [UInt8]) -> [UInt8] { tag + length(content.count) + content }

    static func sequence(_ items: [UInt8]...) -> [UInt8] { item([0x30], items.flatMap { $0 }) }
    static func set(_ items: [UInt8]...) -> [UInt8] { item([0x31], items.flatMap { $0 }) }
    static func octets(_ bytes: [UInt8]) -> [UInt8] { item([0x04], bytes) }
    static func text(_ text: String) -> [UInt8] { octets(Array(text.utf8)) }
    static func integer(_ value: UInt8) -> [UInt8] { item([0x02], [value]) }

    /// `[number] EXPLICIT`.
    static func explicit(_ number: UInt32, _ content: [UInt8]) -> [UInt8] {
        guard number > 30 else { return item([0xa0 | UInt8(number)], content) }
        return item([0xbf, 0x80 | UInt8(number >> 7), UInt8(number & 0x7f)], content)
    }

    static func nonce(_ nonce: [UInt8]) -> [UInt8] { sequence(explicit(1, octets(nonce))) }

    private static func length(_ count: Int) -> [UInt8] {
        switch count {
        case ..<0x80: [UInt8(count)]
        case ..<0x100: [0x81, UInt8(count)]
        default: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
        }
    }
}
