internal import Glibc

/// The addresses that this machine has now.
public enum MachineAddresses {
    /// Of all interfaces, without a port. Nothing if the kernel does not tell them.
    public static var current: [SocketAddress] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ifa_addr, let size = size(of: Int32(address.pointee.sa_family)) {
                let found = SocketAddress { target, length in
                    memcpy(target, address, size)
                    length.pointee = socklen_t(size)
                    return 0
                }
                addresses.append(found.with(port: 0))
            }
            next = entry.pointee.ifa_next
        }
        return addresses
    }

    private static func size(of family: Int32) -> Int? {
        switch family {
        case AF_INET: MemoryLayout<sockaddr_in>.size
        case AF_INET6: MemoryLayout<sockaddr_in6>.size
        default: nil
        }
    }
}
