/// All addresses whose first bits are alike: those of `10.0.0.0/8`, of `2001:db8::/32`, or one alone.
public struct NetworkPrefix: Hashable, Sendable {
    private let isIPv6: Bool
    /// Of the lowest address.
    private let number: UInt128
    /// How many bits the addresses differ in.
    private let freeBits: Int

    /// - Parameters:
    ///   - octets: of the lowest address, in network order: 4 or 16.
    ///   - length: of what is alike, in bits.
    /// - Returns: nil if there is no such network, or the address is not its lowest.
    public init?(octets: [UInt8], length: Int) {
        guard octets.count == 4 || octets.count == 16, 0...(8 * octets.count) ~= length else { return nil }
        isIPv6 = octets.count == 16
        number = octets.reduce(0) { $0 << 8 | UInt128($1) }
        freeBits = 8 * octets.count - length
        guard (number >> freeBits) << freeBits == number else { return nil }
    }

    public func contains(_ address: SocketAddress) -> Bool {
        !address.isUnix && address.isIPv6 == isIPv6 && address.number >> freeBits == number >> freeBits
    }
}
