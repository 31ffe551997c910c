internal import Glibc

/// An IPv4 or IPv6 address with a port, or the path of a Unix socket.
public struct SocketAddress: Sendable {
    private var storage = sockaddr_storage()
    private let length: socklen_t

    /// Parses `127.0.0.1:8443` or `[::1]:8443`. Does not resolve names.
    public init(_ text: String) throws(EventLoopError) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw .address(text)
        }
        try self.init(host: String(text[..<colon]), port: port, original: text)
    }

    private init(host: String, port: UInt16, original: String) throws(EventLoopError) {
        var v4 = sockaddr_in()
        var v6 = sockaddr_in6()
        if host.hasPrefix("["), host.hasSuffix("]"),
            inet_pton(AF_INET6, String(host.dropFirst().dropLast()), &v6.sin6_addr) == 1
        {
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: v6, as: sockaddr_in6.self) }
        } else if inet_pton(AF_INET, host, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: v4, as: sockaddr_in.self) }
        } else {
            throw .address(original)
        }
    }

    /// Creates the address of a Unix socket.
    ///
    /// - Parameter path: the path of its file.
    /// - Throws: an error unless the path has 1 to 107 bytes, none of them NUL.
    public init(unixPath path: String) throws(EventLoopError) {
        let bytes = Array(path.utf8)
        var address = sockaddr_un()
        // One more for the NUL behind it. A path that begins with NUL would be of Linux's abstract kind, which has no
        // mode.
        guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: address.sun_path), !bytes.contains(0) else {
            throw .address(path)
        }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        length = socklen_t(MemoryLayout<sockaddr_un>.size)
        withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_un.self) }
    }

    /// Creates an address from its bytes.
    ///
    /// An IPv6 address that maps an IPv4 address (RFC 4291 section 2.5.5.2) becomes the latter. Otherwise all IPv4
    /// clients of a proxy with one socket for both families would be in one network.
    ///
    /// - Parameter octets: the bytes in network order.
    /// - Returns: nil unless there are 4 or 16.
    public init?(octets: Span<UInt8>, port: UInt16) {
        guard octets.count == 4 || octets.count == 16 else { return nil }
        var number: UInt128 = 0
        for place in octets.indices { number = number << 8 | UInt128(octets[place]) }
        self.init(number, isIPv6: octets.count == 16, port: port)
    }

    /// Parses an address without its port.
    ///
    /// - Parameter text: the notation of `inet_pton`: no brackets, no zone, no leading zeros.
    /// - Returns: nil if the text is no address of that family.
    public init?(text: Span<UInt8>, isIPv6: Bool, port: UInt16) {
        var copy = InlineArray<46, CChar>(repeating: 0)  // INET6_ADDRSTRLEN
        guard text.count < copy.count else { return nil }
        for place in text.indices {
            // C would take it for the end.
            guard text[place] != 0 else { return nil }
            copy[place] = CChar(bitPattern: text[place])
        }
        var octets = InlineArray<16, UInt8>(repeating: 0)
        let isRead = copy.span.withUnsafeBufferPointer { text in
            withUnsafeMutableBytes(of: &octets) {
                inet_pton(isIPv6 ? AF_INET6 : AF_INET, text.baseAddress, $0.baseAddress)
            }
        }
        guard isRead == 1 else { return nil }
        self.init(octets: octets.span.extracting(first: isIPv6 ? 16 : 4), port: port)
    }

    private init(_ number: UInt128, isIPv6: Bool, port: UInt16) {
        if isIPv6, number >> 32 != 0xffff {
            var v6 = sockaddr_in6()
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &v6.sin6_addr) { $0.storeBytes(of: number.bigEndian, as: UInt128.self) }
            length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: v6, as: sockaddr_in6.self) }
        } else {
            var v4 = sockaddr_in()
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            v4.sin_addr.s_addr = UInt32(truncatingIfNeeded: number).bigEndian
            length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: v4, as: sockaddr_in.self) }
        }
    }

    /// Creates an address from the result of a system call that writes into `storage`.
    init(_ fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) {
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = fill($0, &length) }
        }
        self.length = length
    }

    /// Resolves a name to its addresses. Blocks, so it is for tools and never for a loop, which uses `NameLookup`.
    public static func resolve(host: String, port: UInt16) throws(EventLoopError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, String(port), &hints, &list) == 0, let first = list else { throw .address(host) }
        defer { freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        var next: UnsafeMutablePointer<addrinfo>? = first
        while let entry = next {
            if let address = entry.pointee.ai_addr {
                addresses.append(
                    SocketAddress { target, length in
                        memcpy(target, address, Int(entry.pointee.ai_addrlen))
                        length.pointee = entry.pointee.ai_addrlen
                        return 0
                    })
            }
            next = entry.pointee.ai_next
        }
        return addresses
    }

    func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }

    var family: Int32 { Int32(storage.ss_family) }

    public var isIPv6: Bool { family == AF_INET6 }
    public var isUnix: Bool { family == AF_UNIX }

    /// The port. 0 for a Unix socket.
    public var port: UInt16 {
        guard !isUnix else { return 0 }
        return withUnsafeBytes(of: storage) { bytes in
            // sin_port and sin6_port are at the same offset.
            UInt16(bigEndian: bytes.load(fromByteOffset: 2, as: UInt16.self))
        }
    }

    /// Whether the address is local to this machine: 127.0.0.0/8, ::1 or a Unix socket.
    public var isLoopback: Bool {
        guard !isUnix else { return true }
        return withUnsafeBytes(of: storage) { bytes in
            isIPv6 ? bytes[8..<23].allSatisfy { $0 == 0 } && bytes[23] == 1 : bytes[4] == 127
        }
    }

    /// Whether the address is unspecified, 0.0.0.0 or ::, on which a listener accepts connections to all addresses.
    public var isUnspecified: Bool { !isUnix && number == 0 }

    /// Whether this is a multicast address (RFC 5771, RFC 4291 section 2.7) or 255.255.255.255.
    public var isForMany: Bool {
        guard !isUnix else { return false }
        return isIPv6 ? number >> 120 == 0xff : number >> 28 == 0xe || number == 0xffff_ffff
    }

    /// Returns the address with another port, and as IPv4 if it maps an IPv4 address. Returns a Unix socket unchanged.
    public func with(port: UInt16) -> SocketAddress {
        isUnix ? self : SocketAddress(number, isIPv6: isIPv6, port: port)
    }

    /// The address as a number. 0 for a Unix socket.
    var number: UInt128 {
        guard !isUnix else { return 0 }
        return withUnsafeBytes(of: storage) { bytes in
            // The address is at offset 4 (IPv4) or 8 (IPv6).
            (isIPv6 ? bytes[8..<24] : bytes[4..<8]).reduce(0) { $0 << 8 | UInt128($1) }
        }
    }

    /// The client that limits count the address for.
    public var block: AddressBlock {
        guard !isUnix else { return AddressBlock(family: family, prefix: 0) }
        return withUnsafeBytes(of: storage) { bytes in
            // The address is at offset 4 (IPv4) or 8 (IPv6).
            let prefix = isIPv6 ? bytes[8..<16] : bytes[4..<8]
            return AddressBlock(family: family, prefix: prefix.reduce(0) { $0 << 8 | UInt64($1) })
        }
    }

    /// The address without its port: `192.0.2.7` or `2001:db8::7`. `unix` for Unix sockets, whose clients have no name.
    public var host: String {
        guard !isUnix else { return "unix" }
        return withUnsafeBytes(of: storage) { bytes in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
                // The address is at offset 4 (IPv4) or 8 (IPv6); both lie inside sockaddr_storage.
                let address = bytes.baseAddress.map { $0 + (isIPv6 ? 8 : 4) }
                return inet_ntop(family, address, text.baseAddress, socklen_t(text.count))
                    .map { String(cString: $0) } ?? "?"
            }
        }
    }
}

extension SocketAddress: Hashable {
    /// Returns whether address and port are equal. Unix sockets are equal if their paths are.
    public static func == (left: SocketAddress, right: SocketAddress) -> Bool {
        guard left.family == right.family else { return false }
        return left.isUnix
            ? left.path == right.path : left.number == right.number && left.port == right.port
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(family)
        hasher.combine(number)
        hasher.combine(port)
    }

    /// The path of a Unix socket without trailing NULs, which the kernel may add or omit. Nil for other addresses.
    var path: String? {
        guard isUnix else { return nil }
        return withUnsafeBytes(of: storage) { bytes in
            // sun_path follows the family.
            String(decoding: bytes[2..<max(2, Int(length))].prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

extension SocketAddress: CustomStringConvertible {
    public var description: String {
        if isUnix { return host }
        return isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// A network: `10.0.0.0/8`, `2001:db8::/32`, or a single address.
public struct NetworkPrefix: Hashable, Sendable {
    private let isIPv6: Bool
    /// The lowest address.
    private let number: UInt128
    /// The number of bits in which the addresses differ.
    private let freeBits: Int

    /// Creates a network.
    ///
    /// - Parameters:
    ///   - octets: the lowest address: 4 or 16 bytes in network order.
    ///   - length: the length of the prefix in bits.
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

/// The addresses that limits count as one client.
///
/// This is an IPv4 address, the /64 of an IPv6 address (the holder of one has all of them: RFC 4291 section 2.5.1), or
/// all clients of Unix sockets.
public struct AddressBlock: Hashable, Sendable {
    private let family: Int32
    private let prefix: UInt64

    init(family: Int32, prefix: UInt64) {
        self.family = family
        self.prefix = prefix
    }

    /// The bits of the address, or of the network: equal in all processes.
    public var number: UInt64 { prefix }
}
