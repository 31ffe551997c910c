package import Bytes
package import Cryptography
package import EventLoop
internal import Glibc
package import Registry
internal import Server
internal import Vocabulary

/// What the thread of a service offers its generations.
package struct ServiceResources {
    package let loop: Loop
    package let pool: BufferPool
    package let library: LibraryContext
    package let registry: DeviceRegistry
    package let registryRequests: RegistryRequests
    package let notify: (EnrolmentNotice) -> Void
}

/// A generation of a service: the listeners, rules and connections of one value of settings.
package protocol ServiceGeneration: AnyObject {
    var listening: ServiceListening { get }
    /// Begins background work, before the first connection.
    func begin()
    /// Ends background work.
    func stopUpkeep()
    /// Adopts a new epoch of the store.
    func renew(_ identity: StoreIdentity) throws(CryptographyError)
}

/// The thread of one service: its loop, its current generation, and earlier ones with open connections.
final class ServiceThread<Settings: Sendable> {
    typealias Make = (Settings, StoreIdentity) throws -> any ServiceGeneration

    private let name: String
    private let loop: Loop
    private let make: Make
    private let report: (ServiceReport) -> Void
    private var identity: StoreIdentity
    private var current: (any ServiceGeneration)?
    private var retired: [any ServiceGeneration] = []
    private var prepared: (generation: any ServiceGeneration, sockets: [String: Int32])?
    /// Retired generations whose last connection has closed.
    private var emptied: [any ServiceGeneration] = []
    private var cleaner: LoopTimer?
    private var isDraining = false
    private var relief: MemoryRelief?

    /// A receiver of the registry's events before the thread exists.
    private final class Renewal {
        var notify: (StoreIdentity) -> Void = { _ in }
        var bar: ([KeyID]) -> Void = { _ in }
    }

    /// Creates the thread's state.
    ///
    /// - Parameters:
    ///   - name: The service in messages.
    ///   - sockets: Descriptors of listening sockets, one for each listener's name. Takes ownership.
    ///   - make: Returns the maker of generations.
    init(
        _ name: String, _ settings: Settings, sockets: [String: Int32], registry: DeviceRegistry, memory: MemoryBudget,
        report: @escaping (ServiceReport) -> Void, make: (ServiceResources) throws -> Make
    ) throws {
        let loop = try Loop()
        let renewal = Renewal()
        let registryRequests = try RegistryRequests(
            registry, loop: loop, commandLimit: RegistryLimits.enrolmentCommands, barred: { renewal.bar($0) }
        ) { renewal.notify($0) }
        self.name = name
        self.loop = loop
        self.report = report
        identity = registry.identity
        let pool = BufferPool(idleLimit: 16, meter: MemoryMeter(memory))
        let make = try make(
            ServiceResources(
                loop: loop, pool: pool, library: try LibraryContext(), registry: registry,
                registryRequests: registryRequests, notify: { report(.notice($0)) }))
        self.make = make
        let generation = try make(settings, identity)
        generation.listen(sockets)
        current = generation
        renewal.notify = { [unowned self] in renew($0) }
        // A device that revokes itself gets its answer first: connections of HTTP/2 write at the end of this turn.
        renewal.bar = { [unowned self] keys in
            loop.whenTurnEnds { [weak self] in
                self?.loop.whenTurnEnds { [weak self] in self?.generations.forEach { $0.listening.bar(keys) } }
            }
        }
        // In a separate event, because the present one still uses the generation's last connection.
        cleaner = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in clean() }
        relief = MemoryRelief(loop: loop, pool: pool) { [unowned self] in generations.map(\.listening.acceptor) }
    }

    /// Serves until a stop or drain command ends the loop. Blocks the thread.
    func run(_ mailbox: Mailbox<ServiceControl<Settings>.Command>) {
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] in receive($0) }
        report(.serving)
        withExtendedLifetime(receiver) { loop.run() }
        discard()
        report(.ended)
    }

    private func receive(_ command: ServiceControl<Settings>.Command) {
        switch command {
        case .prepare(let settings, let sockets): prepare(settings, sockets)
        case .adopt: adopt()
        case .discard: discard()
        case .ping: report(.pong)
        case .duplicateSockets: report(.duplicated(duplicateSockets()))
        case .drain: drain()
        case .stop:
            for generation in generations { generation.abort() }
            loop.stop()
        }
    }

    private var generations: [any ServiceGeneration] { retired + (current.map { [$0] } ?? []) }

    private func renew(_ identity: StoreIdentity) {
        self.identity = identity
        for generation in generations + (prepared.map { [$0.generation] } ?? []) {
            do throws(CryptographyError) { try generation.renew(identity) } catch {
                // Its nonces have the old epoch, so the registry refuses them.
                report(.failed("nonces of the new epoch cannot be created: \(error)"))
            }
        }
    }

    // MARK: - Generations

    /// Prepares new settings. Everything that can fail is done here.
    private func prepare(_ settings: Settings, _ new: [String: Int32]) {
        discard()
        var sockets = new
        do {
            let generation = try make(settings, identity)
            for name in generation.listening.names where sockets[name] == nil {
                guard let descriptor = current?.listening.duplicateListener(name) else {
                    throw EnrolmentStartError("listener \(name): there is no free descriptor to hand it over")
                }
                sockets[name] = descriptor
            }
            prepared = (generation, sockets)
            report(.prepared(fault: nil))
        } catch {
            for descriptor in sockets.values { close(descriptor) }
            report(.prepared(fault: "\(name): \(error)"))
        }
    }

    private func discard() {
        guard let prepared else { return }
        for descriptor in prepared.sockets.values { close(descriptor) }
        self.prepared = nil
    }

    private func adopt() {
        guard let (next, sockets) = prepared, let previous = current, !isDraining else { return discard() }
        prepared = nil
        next.listen(sockets)
        current = next
        retired.append(previous)
        previous.retire { [unowned self] in forget(previous) }
        report(.adopted)
    }

    private func forget(_ generation: any ServiceGeneration) {
        emptied.append(generation)
        cleaner?.start()
    }

    private func clean() {
        for generation in emptied { retired.removeAll { $0 === generation } }
        emptied.removeAll()
        if isDraining, current == nil, retired.isEmpty { loop.stop() }
    }

    /// Duplicates the descriptors of the listening sockets.
    ///
    /// - Returns: nil if there are not enough left.
    private func duplicateSockets() -> [String: Int32]? {
        guard let current else { return nil }
        var sockets: [String: Int32] = [:]
        for name in current.listening.names { sockets[name] = current.listening.duplicateListener(name) }
        guard sockets.count < current.listening.names.count else { return sockets }
        for descriptor in sockets.values { close(descriptor) }
        return nil
    }

    // MARK: - End

    /// Drains. The registry completes its commands, and their requests are answered, so connections with a request are
    /// awaited.
    private func drain() {
        guard !isDraining else { return }
        isDraining = true
        discard()
        if let current {
            retired.append(current)
            self.current = nil
        }
        for generation in retired { generation.drain { [unowned self] in forget(generation) } }
        cleaner?.start()
    }
}

extension ServiceGeneration {
    /// Begins to accept.
    ///
    /// - Parameter sockets: Descriptors of listening sockets, one for each name. Takes ownership.
    fileprivate func listen(_ sockets: [String: Int32]) {
        listening.listen(sockets)
        begin()
    }

    fileprivate func retire(ended: @escaping () -> Void) {
        stopUpkeep()
        listening.retire(ended: ended)
    }

    fileprivate func drain(ended: @escaping () -> Void) {
        stopUpkeep()
        listening.drain(ended: ended)
    }

    fileprivate func abort() {
        stopUpkeep()
        listening.acceptor.abortAll()
    }
}
