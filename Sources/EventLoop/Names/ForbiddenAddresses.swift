internal import Glibc

/// Addresses that nothing is forwarded to, even if a name resolves to them. These are our own listeners, which would
/// take requests of the gateway for those of an operator or a phone (DNS rebinding), and addresses that belong to no
/// host.
public struct ForbiddenAddresses: Sendable {
    public struct Listener: Sendable {
        public let address: SocketAddress
        /// What listens there: "the administration".
        public let purpose: String

        public init(address: SocketAddress, purpose: String) {
            self.address = address
            self.purpose = purpose
        }
    }

    private let listeners: [Listener]

    public init(listeners: [Listener]) {
        self.listeners = listeners
    }

    /// What speaks against forwarding to the address, if anything does.
    ///
    /// - Parameter machine: the machine's own addresses; asked for only if a listener listens on all of them.
    public func objection(
        to address: SocketAddress, machine: () -> [SocketAddress] = { MachineAddresses.current }
    ) -> String? {
        // ::ffff:127.0.0.1 leads where 127.0.0.1 does.
        let address = address.with(port: address.port)
        if address.isUnspecified { return "is not the address of a machine" }
        if address.isForMany { return "is a multicast address" }
        let reached = listeners.first { listener in
            guard listener.address.port == address.port else { return false }
            if listener.address == address { return true }
            // Listeners for :: take no IPv4.
            guard listener.address.isUnspecified, listener.address.isIPv6 == address.isIPv6 else { return false }
            return address.isLoopback || machine().contains { $0.with(port: address.port) == address }
        }
        return reached.map { "is the address of \($0.purpose)" }
    }
}

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
