/// An address, or all whose first bits are alike: `10.0.0.0/8`, `2001:db8::/32`, `127.0.0.1`.
public struct Network: Hashable, Sendable {
    /// Of the lowest address, in network order: 4 or 16.
    public let octets: [UInt8]
    /// Of what is alike, in bits.
    public let length: Int

    public var isIPv6: Bool { octets.count == 16 }
    /// Whether it is every address of its family.
    var isEverything: Bool { length == 0 }

    static let expected = "an address or a network, for example 10.0.0.0/8, 192.0.2.7 or \"2001:db8::/32\""

    /// Bits behind the prefix must be zero: other bits mean that another network, or one address, was intended.
    static func parse(_ text: String) throws(InvalidValue) -> Network {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = IPLiteral(String(parts[0])) else {
            let isBracketed = parts[0].hasPrefix("[") && parts[0].hasSuffix("]")
            throw InvalidValue(
                "\(Printable.quoted(String(parts[0]))) is not an address",
                suggestion: isBracketed ? IPLiteral(String(parts[0].dropFirst().dropLast()))?.text : nil)
        }
        let bits = 8 * address.octets.count
        guard parts.count == 2 else { return Network(octets: address.octets, length: bits) }
        guard let length = Decimal.parse(parts[1]), length <= bits else {
            throw InvalidValue("\(Printable.quoted(String(parts[1]))) is not a number of bits from 0 to \(bits)")
        }
        let lowest = Network(address.octets, masked: length)
        guard lowest.octets == address.octets else {
            throw InvalidValue(
                "\(Printable.quoted(text)) has bits set after the first \(length)",
                suggestion: IPLiteral(octets: lowest.octets).map { "\($0.text)/\(length)" })
        }
        return lowest
    }

    private init(octets: [UInt8], length: Int) {
        self.octets = octets
        self.length = length
    }

    private init(_ octets: [UInt8], masked length: Int) {
        let kept = octets.enumerated().map { place, octet in
            octet & ~UInt8(truncatingIfNeeded: 0xff >> max(0, min(8, length - 8 * place)))
        }
        self.init(octets: kept, length: length)
    }
}
