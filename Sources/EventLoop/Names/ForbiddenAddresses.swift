/// Where nothing is forwarded to, whatever a name resolves to: to listeners of our own, which take requests of the gateway for
/// those of an operator or a phone (DNS rebinding), and to what is nobody's address.
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
        if address.isUnspecified { return "is no machine's address" }
        if address.isForMany { return "is the address of many machines" }
        let reached = listeners.first { listener in
            guard listener.address.port == address.port else { return false }
            if listener.address == address { return true }
            // Listeners for :: take no IPv4.
            guard listener.address.isUnspecified, listener.address.isIPv6 == address.isIPv6 else { return false }
            return address.isLoopback || machine().contains { $0.with(port: address.port) == address }
        }
        return reached.map { "is where \($0.purpose) listens" }
    }
}
