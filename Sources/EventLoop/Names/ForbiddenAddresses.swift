internal import Glibc

/// Addresses to which nothing is forwarded, even if a name resolves to them.
///
/// These are our own listeners, which would take requests of the gateway for those of an operator or a phone (DNS
/// rebinding), and addresses that belong to no host.
public struct ForbiddenAddresses: Sendable {
    public struct Listener: Sendable {
        public let address: SocketAddress
        /// The purpose of the listener: "the administration".
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

    /// Returns the reason against forwarding to the address, if there is one.
    ///
    /// - Parameter machine: returns the machine's own addresses. Called only if a listener listens on all of them.
    public func objection(
        to address: SocketAddress, machine: () -> [SocketAddress] = { MachineAddresses.current }
    ) -> String? {
        // ::ffff:127.0.0.1 leads to 127.0.0.1.
        let address = address.with(port: address.port)
        if address.isUnspecified { return "is not the address of a machine" }
        if address.isForMany { return "is a multicast address" }
        let reached = listeners.first { listener in
            guard listener.address.port == address.port else { return false }
            if listener.address == address { return true }
            // Listeners on :: accept no IPv4.
            guard listener.address.isUnspecified, listener.address.isIPv6 == address.isIPv6 else { return false }
            return address.isLoopback || machine().contains { $0.with(port: address.port) == address }
        }
        return reached.map { "is the address of \($0.purpose)" }
    }
}

/// The present addresses of this machine.
public enum MachineAddresses {
    /// The addresses of all interfaces, without a port. Empty if the kernel does not return them.
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
