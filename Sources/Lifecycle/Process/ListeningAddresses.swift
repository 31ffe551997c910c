internal import EventLoop
internal import Glibc

/// Binds the addresses of listeners, for all workers at once and before any of them is told: an address in use is found
/// while nothing has changed yet.
enum ListeningAddresses {
    /// - Parameters:
    ///   - mayOverlap: whether another process may be listening on them.
    /// - Returns: for each worker the descriptors, by address.
    static func bind(
        _ listeners: [Blueprint.Listener], workers: Int, mayOverlap: Bool
    ) throws(StartupError) -> [[String: Int32]] {
        // With SO_REUSEPORT the kernel would let a second process of the same user in, and a forgotten one would go on
        // serving its share by its old rules.
        if !mayOverlap {
            for listener in listeners { _ = try bind(listener, isShared: false) }
        }
        var sockets = [[String: Int32]](repeating: [:], count: workers)
        do throws(StartupError) {
            for worker in 0..<workers {
                for listener in listeners {
                    sockets[worker][listener.name] = try bind(listener, isShared: true).detach()
                }
            }
        } catch {
            release(sockets)
            throw error
        }
        return sockets
    }

    /// Binds the one address of enrolment.
    ///
    /// - Returns: the descriptor by name.
    static func bind(
        _ enrolment: EnrolmentBlueprint, mayOverlap: Bool
    ) throws(StartupError) -> [String: Int32] {
        let (address, name) = (enrolment.address, "\(enrolment.name) of enrolment")
        if !mayOverlap { _ = try bind(address, name, isShared: false) }
        return [enrolment.name: try bind(address, name, isShared: true).detach()]
    }

    /// Closes what nobody took over.
    static func release(_ sockets: [[String: Int32]]) {
        for descriptor in sockets.flatMap(\.values) { close(descriptor) }
    }

    private static func bind(_ listener: Blueprint.Listener, isShared: Bool) throws(StartupError) -> Socket {
        try bind(listener.address, listener.name, isShared: isShared)
    }

    private static func bind(
        _ address: SocketAddress, _ name: String, isShared: Bool
    ) throws(StartupError) -> Socket {
        do throws(EventLoopError) {
            return try Socket.listen(on: address, isShared: isShared)
        } catch {
            var hint = ""
            if case .system(_, EACCES) = error { hint = "; ports below 1024 take CAP_NET_BIND_SERVICE" }
            throw StartupError("listener \(name): \(error.text)\(hint)")
        }
    }
}
