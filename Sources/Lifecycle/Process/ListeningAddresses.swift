internal import EventLoop
internal import Glibc

/// Binds the addresses of listeners for all workers before any of them receives its sockets: an address in use is
/// found while nothing has changed yet.
enum ListeningAddresses {
    /// Binds the addresses of clients' listeners.
    ///
    /// - Parameters:
    ///   - mayOverlap: Whether another process may be listening on them.
    ///   - inherited: Sockets that the process inherited. Those that listen on one of the addresses are used.
    /// - Returns: The descriptors of each worker, by address.
    static func bind(
        _ listeners: [ListenerBlueprint], workers: Int, mayOverlap: Bool, inherited: InheritedSockets? = nil
    ) throws(StartupError) -> [[String: Int32]] {
        var sockets = [[String: Int32]](repeating: [:], count: workers)
        var unbound: [ListenerBlueprint] = []
        do throws(StartupError) {
            for listener in listeners {
                let taken = inherited?.take(listener.address) ?? []
                if taken.isEmpty { unbound.append(listener) }
                for (worker, descriptor) in try divide(taken, among: workers, listener.name).enumerated() {
                    sockets[worker][listener.name] = descriptor
                }
            }
            // With SO_REUSEPORT the kernel would admit a second process of the same user, and a forgotten one would
            // continue to serve its share by its old rules.
            if !mayOverlap {
                for listener in unbound { _ = try bind(listener, isShared: false) }
            }
            for worker in 0..<workers {
                for listener in unbound {
                    sockets[worker][listener.name] = try bind(listener, isShared: true).detach()
                }
            }
        } catch {
            release(sockets)
            throw error
        }
        return sockets
    }

    /// Binds the address of enrolment.
    ///
    /// - Returns: The descriptor by name.
    static func bind(
        _ enrolment: EnrolmentBlueprint, mayOverlap: Bool, inherited: InheritedSockets? = nil
    ) throws(StartupError) -> [String: Int32] {
        let (address, name) = (enrolment.address, "\(enrolment.name) of enrolment")
        let taken = try divide(inherited?.take(address) ?? [], among: 1, name)
        if let descriptor = taken.first { return [enrolment.name: descriptor] }
        if !mayOverlap { _ = try bind(address, name, isShared: false) }
        return [enrolment.name: try bind(address, name, isShared: true).detach()]
    }

    /// Returns a socket for each worker. If there are fewer, as a service manager has one, some workers share one
    /// with its queue.
    ///
    /// - Parameter descriptors: Descriptors whose ownership passes to this function.
    /// - Returns: As many as there are workers; none if there were none.
    private static func divide(
        _ descriptors: [Int32], among workers: Int, _ name: String
    ) throws(StartupError) -> [Int32] {
        guard !descriptors.isEmpty else { return [] }
        var divided = descriptors
        func refuse(_ reason: String) -> StartupError {
            for descriptor in divided where descriptor >= 0 { close(descriptor) }
            return StartupError("listener \(name): \(reason)")
        }
        // The connections in the queue of an unused socket would be lost.
        guard descriptors.count <= workers else {
            throw refuse(
                """
                \(descriptors.count) listening sockets were inherited for \(workers) workers: fewer workers require a restart
                """)
        }
        for worker in descriptors.count..<workers {
            divided.append(fcntl(descriptors[worker % descriptors.count], F_DUPFD_CLOEXEC, 0))
        }
        guard divided.allSatisfy({ $0 >= 0 }) else { throw refuse(EventLoopError.text(of: EMFILE)) }
        return divided
    }

    /// Closes sockets that were not used.
    static func release(_ sockets: [[String: Int32]]) {
        for descriptor in sockets.flatMap(\.values) { close(descriptor) }
    }

    private static func bind(_ listener: ListenerBlueprint, isShared: Bool) throws(StartupError) -> Socket {
        try bind(listener.address, listener.name, isShared: isShared)
    }

    private static func bind(
        _ address: SocketAddress, _ name: String, isShared: Bool
    ) throws(StartupError) -> Socket {
        do throws(EventLoopError) {
            return try Socket.listen(on: address, isShared: isShared)
        } catch {
            var hint = ""
            if case .system(_, EACCES) = error { hint = "; ports below 1024 require CAP_NET_BIND_SERVICE" }
            if case .system(_, EADDRINUSE) = error { hint = "; `ss --listening --tcp --processes` shows the process" }
            throw StartupError("listener \(name): \(error.text)\(hint)", of: .address(address.description))
        }
    }
}
