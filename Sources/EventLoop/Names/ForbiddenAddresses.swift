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
