internal import EventLoop

/// Version 2, in binary (section 2.2): signature, version and command, family and protocol, length; then two addresses, two
/// ports, and type-length-values.
extension ProxyHeader {
    private static let signature: InlineArray<12, UInt8> = [
        0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
    ]
    /// What every header begins with, in bytes.
    static let binaryHead = 16
    /// PP2_TYPE_CRC32C.
    private static let checksumType: UInt8 = 0x03

    static func parseBinary(_ bytes: Span<UInt8>) throws(ProxyHeaderFault) -> ProxyHeader? {
        for place in 0..<min(bytes.count, signature.count) where bytes[place] != signature[place] { throw .absent }
        guard bytes.count >= binaryHead else { return nil }
        guard bytes[12] >> 4 == 2 else { throw .version }
        let length = binaryHead + number(bytes, at: 14)
        guard length <= longest else { throw .tooLong }
        let octets: Int?
        switch bytes[12] & 0x0f {
        case 0: octets = nil  // LOCAL: the family is ignored
        case 1: octets = try addressLength(bytes[13])
        default: throw .command
        }
        guard bytes.count >= length else { return nil }
        let header = bytes.extracting(first: length)
        guard let octets else { return ProxyHeader(source: nil, length: length) }
        return ProxyHeader(source: try source(header, octets), length: length)
    }

    /// - Returns: how many octets each address has; nil if there are none to look at.
    private static func addressLength(_ family: UInt8) throws(ProxyHeaderFault) -> Int? {
        switch family {
        case 0x00: nil  // UNSPEC, behind which any bytes may stand
        case 0x11: 4
        case 0x21: 16
        default: throw .family
        }
    }

    private static func source(_ header: Span<UInt8>, _ octets: Int) throws(ProxyHeaderFault) -> SocketAddress? {
        let values = binaryHead + 2 * octets + 4
        guard header.count >= values else { throw .addresses }
        try checkValues(header, from: values)
        let port = UInt16(number(header, at: binaryHead + 2 * octets))
        return SocketAddress(octets: header.extracting(binaryHead..<(binaryHead + octets)), port: port)
    }

    /// All of them end where the header does, and the checksum is right if there is one. Nothing else of them is asked for.
    private static func checkValues(_ header: Span<UInt8>, from start: Int) throws(ProxyHeaderFault) {
        var position = start
        var checksum: Int?
        while position < header.count {
            guard header.count - position >= 3 else { throw .value }
            let value = position + 3
            let end = value + number(header, at: position + 1)
            guard end <= header.count else { throw .value }
            if header[position] == checksumType {
                guard checksum == nil, end - value == 4 else { throw .checksum }
                checksum = value
            }
            position = end
        }
        guard let checksum else { return }
        let stated = UInt32(number(header, at: checksum)) << 16 | UInt32(number(header, at: checksum + 2))
        guard CRC32C.of(header, takingAsZero: checksum..<(checksum + 4)) == stated else { throw .checksum }
    }

    /// Two octets in network order.
    private static func number(_ bytes: Span<UInt8>, at place: Int) -> Int {
        Int(bytes[place]) << 8 | Int(bytes[place + 1])
    }
}
