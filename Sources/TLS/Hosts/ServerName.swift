/// The name of a host, as clients ask for it in the handshake (RFC 6066 section 3) and requests name it in Host: labels of
/// letters, digits and hyphens, in lower case, without a last dot. Never an address.
public struct ServerName: Hashable, Sendable {
    /// In lower case.
    public let bytes: [UInt8]

    /// Nil if the text is no such name. Letters may be of either case.
    public init?(_ text: String) {
        self.init(Array(text.utf8).span)
    }

    init?(_ name: Span<UInt8>) {
        guard (1...253).contains(name.count) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(name.count)
        var labelStart = 0
        var isLabelNumber = true
        for index in name.indices {
            let byte = Self.lowercased(name[index])
            switch byte {
            case UInt8(ascii: "."):
                guard (1...63).contains(index - labelStart) else { return nil }
                labelStart = index + 1
                isLabelNumber = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"): break
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"): isLabelNumber = false
            default: return nil
            }
            bytes.append(byte)
        }
        // A last label of digits is the end of an address, and those are no names (RFC 6066 section 3).
        guard (1...63).contains(name.count - labelStart), !isLabelNumber else { return nil }
        self.bytes = bytes
    }

    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// In the order of the bytes, shorter names first where one begins with the other.
    ///
    /// - Parameter host: in any case.
    /// - Returns: below 0 if the host comes before the name, above if after it.
    func order(of host: Span<UInt8>) -> Int {
        let name = bytes.span
        for index in 0..<min(host.count, name.count) {
            let byte = Self.lowercased(host[index])
            if byte != name[index] { return Int(byte) - Int(name[index]) }
        }
        return host.count - name.count
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }
}
