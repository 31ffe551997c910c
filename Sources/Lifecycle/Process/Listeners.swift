internal import EventLoop
internal import Glibc
internal import Logging

/// The listening sockets of threads that do not have them yet: bound, or inherited. All are bound before any thread
/// receives one: an address in use is found while nothing has changed yet.
final class Listeners {
    /// New sockets, which the threads will own.
    struct Sockets {
        /// The descriptors of each worker, by address.
        var workers: [[String: Int32]]
        /// The descriptors of services, by name.
        var services: [String: Int32]
    }

    private let inheritance: Inheritance
    private let logger: Logger
    /// The files of Unix sockets, by the listener's name.
    private var files: [String: SocketFile] = [:]

    init(_ inheritance: Inheritance, _ logger: Logger) {
        self.inheritance = inheritance
        self.logger = logger
    }

    /// Returns sockets for all addresses of the first generation.
    func first(for blueprint: Blueprint) throws(StartupError) -> Sockets {
        // A process that takes over may find its predecessor on an address that was not handed over.
        try bind(
            blueprint.listeners, blueprint.serviceAddresses, workers: blueprint.workers,
            mayOverlap: inheritance.takesOver,
            inherited: inheritance.sockets)
    }

    /// Returns sockets for the addresses that a generation has and the previous one has not.
    func new(for blueprint: Blueprint, since previous: Blueprint) throws(StartupError) -> Sockets {
        let known = Set(previous.listeners.map(\.name))
        let served = Set(previous.serviceAddresses.map(\.name))
        for listener in blueprint.listeners {
            guard let file = files[listener.name], let access = listener.socket?.access else { continue }
            do throws(SocketFileError) { try file.admit(access) } catch { throw Self.refusal(of: listener, error) }
        }
        return try bind(
            blueprint.listeners.filter { !known.contains($0.name) },
            blueprint.serviceAddresses.filter { !served.contains($0.name) },
            workers: blueprint.workers, mayOverlap: false, inherited: nil)
    }

    /// Removes the files of listeners that are not served.
    func keepFiles(of blueprint: Blueprint) {
        let names = Set(blueprint.listeners.map(\.name))
        files = files.filter { names.contains($0.key) }
    }

    /// Removes all files.
    func removeFiles() { files = [:] }

    /// Duplicates the locks of Unix sockets for the process that takes over. The caller owns the duplicates.
    ///
    /// - Returns: Nil if too few descriptors are left.
    func duplicateLocks() -> [Int32]? {
        let locks = files.values.filter(\.isLocked).map { $0.duplicateLock() }
        guard locks.contains(nil) else { return locks.compactMap(\.self) }
        for lock in locks.compactMap(\.self) { close(lock) }
        return nil
    }

    /// Leaves the files to the process that has taken over.
    func handOver() {
        for file in files.values { file.giveAway() }
    }

    /// Closes inherited sockets that were not used.
    func closeInherited() {
        for socket in inheritance.sockets?.left ?? [] {
            logger.warning("the inherited listening socket \(socket) belongs to no listener and was closed")
        }
        inheritance.closeSockets()
    }

    /// Closes sockets that were not used.
    static func release(_ sockets: some Sequence<[String: Int32]>) {
        for descriptor in sockets.flatMap(\.values) { close(descriptor) }
    }

    // MARK: - Binding

    private func bind(
        _ listeners: [ListenerBlueprint], _ services: [(name: String, address: SocketAddress)], workers: Int,
        mayOverlap: Bool, inherited: InheritedSockets?
    ) throws(StartupError) -> Sockets {
        var sockets = Sockets(workers: [[String: Int32]](repeating: [:], count: workers), services: [:])
        var unbound: [ListenerBlueprint] = []
        do throws(StartupError) {
            for listener in listeners where listener.socket != nil {
                let descriptor = try bind(socketOf: listener, inherited: inherited)
                for (worker, descriptor) in try divide([descriptor], among: workers, listener.name).enumerated() {
                    sockets.workers[worker][listener.name] = descriptor
                }
            }
            for listener in listeners where listener.socket == nil {
                let taken = inherited?.take(listener.address) ?? []
                if taken.isEmpty { unbound.append(listener) }
                for (worker, descriptor) in try divide(taken, among: workers, listener.name).enumerated() {
                    sockets.workers[worker][listener.name] = descriptor
                }
            }
            // With SO_REUSEPORT the kernel would admit a second process of the same user, and a forgotten one would
            // continue to serve its share by its old rules.
            if !mayOverlap {
                for listener in unbound { _ = try bind(listener.address, listener.name, isShared: false) }
            }
            for worker in 0..<workers {
                for listener in unbound {
                    sockets.workers[worker][listener.name] = try bind(
                        listener.address, listener.name, isShared: true
                    ).detach()
                }
            }
            for (name, address) in services {
                sockets.services[name] = try bind(
                    service: address, name, mayOverlap: mayOverlap, inherited: inherited)
            }
        } catch {
            Self.release(sockets.workers + [sockets.services])
            throw error
        }
        return sockets
    }

    /// Makes a Unix socket, or takes the inherited one. All workers share its queue.
    private func bind(
        socketOf listener: ListenerBlueprint, inherited: InheritedSockets?
    ) throws(StartupError) -> Int32 {
        guard let (path, access) = listener.socket else { preconditionFailure("\(listener.name) is no Unix socket") }
        do throws(SocketFileError) {
            let file = try SocketFile(path: path, access: access, inherited: inherited)
            let socket = try file.listen(backlog: 4096)
            files[listener.name] = file
            return socket.detach()
        } catch {
            throw Self.refusal(of: listener, error)
        }
    }

    private static func refusal(of listener: ListenerBlueprint, _ error: SocketFileError) -> StartupError {
        var hint = ""
        if case .failed(_, _, EPERM) = error { hint = "; \(ListenerBlueprint.unprivileged)" }
        return StartupError("listener \(listener.name): \(error)\(hint)", of: .address(listener.name))
    }

    private func bind(
        service address: SocketAddress, _ name: String, mayOverlap: Bool, inherited: InheritedSockets?
    ) throws(StartupError) -> Int32 {
        if let taken = try divide(inherited?.take(address) ?? [], among: 1, name).first { return taken }
        if !mayOverlap { _ = try bind(address, name, isShared: false) }
        return try bind(address, name, isShared: true).detach()
    }

    /// Returns a socket for each worker. If there are fewer, as a service manager has one, some workers share one
    /// with its queue.
    ///
    /// - Parameter descriptors: Descriptors whose ownership passes to this function.
    /// - Returns: As many as there are workers; none if there were none.
    private func divide(
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

    private func bind(
        _ address: SocketAddress, _ name: String, isShared: Bool
    ) throws(StartupError) -> Socket {
        do throws(EventLoopError) {
            return try Socket.listen(on: address, isShared: isShared)
        } catch {
            var hint = ""
            if case .system(_, EACCES) = error { hint = "; ports below 1024 require CAP_NET_BIND_SERVICE" }
            if case .system(_, EADDRINUSE) = error { hint = "; `ss --listening --tcp --processes` shows the process" }
            if case .system(_, EADDRNOTAVAIL) = error { hint = "; `ip address` shows the addresses of this machine" }
            throw StartupError("listener \(name): \(error.text)\(hint)", of: .address(address.description))
        }
    }
}
