internal import Glibc

/// An IPv4 or IPv6 address written out, in its canonical spelling.
struct IPLiteral: Hashable {
    /// As the C library writes it, IPv6 as RFC 5952 wants it; no brackets.
    let text: String
    /// In network order: 4 or 16.
    let octets: [UInt8]
    let isLoopback: Bool
    let isIPv6: Bool

    /// The IPv4 address that an IPv6 address maps (RFC 4291 section 2.5.5.2); itself if it maps none.
    var unmapped: IPLiteral {
        let isMapped = isIPv6 && octets.prefix(10).allSatisfy { $0 == 0 } && octets[10...11].allSatisfy { $0 == 0xff }
        return isMapped ? IPLiteral(octets: Array(octets.suffix(4))) ?? self : self
    }

    /// Whether it stands for all addresses of a machine: 0.0.0.0, ::.
    var isUnspecified: Bool { octets.allSatisfy { $0 == 0 } }

    /// Whether it is a multicast address, or 255.255.255.255.
    var isForMany: Bool {
        isIPv6 ? octets[0] == 0xff : octets[0] >> 4 == 0xe || octets.allSatisfy { $0 == 0xff }
    }

    /// - Returns: nil unless there are 4 or 16 octets.
    init?(octets: [UInt8]) {
        switch octets.count {
        case 4: self.init(octets.map { "\($0)" }.joined(separator: "."))
        case 16:
            let groups = stride(from: 0, to: 16, by: 2).map {
                String(Int(octets[$0]) << 8 | Int(octets[$0 + 1]), radix: 16)
            }
            self.init(groups.joined(separator: ":"))
        default: return nil
        }
    }

    /// - Parameter text: no brackets, no zone. Octets with leading zeros are refused: some read them as octal.
    init?(_ text: String) {
        if text.contains(":") {
            var address = in6_addr()
            guard unsafe inet_pton(AF_INET6, text, &address) == 1 else { return nil }
            var canonical = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
            // The buffer holds the longest spelling there is, so the call cannot fail.
            guard unsafe inet_ntop(AF_INET6, &address, &canonical, socklen_t(canonical.count)) != nil else {
                return nil
            }
            octets = unsafe withUnsafeBytes(of: address) { unsafe Array($0) }
            self.text = String(decoding: canonical.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            isIPv6 = true
            isLoopback = self.text == "::1"
        } else {
            var address = in_addr()
            guard unsafe inet_pton(AF_INET, text, &address) == 1 else { return nil }
            octets = unsafe withUnsafeBytes(of: address) { unsafe Array($0) }
            self.text = text
            isIPv6 = false
            isLoopback = UInt32(bigEndian: address.s_addr) >> 24 == 127
        }
    }
}
