internal import EventLoop
internal import Logging

/// The names of upstreams' servers: resolved on the main thread's loop, once for all workers, which receive the changes.
final class NameResolution {
    let book: NameBook
    private var delivery = AddressDelivery()
    private let loop: Loop
    private let workers: WorkerGroup
    private let logger: Logger

    /// How long to wait for the first answers: without them the first requests would fail.
    private static let patience = TimeSpan.seconds(2)

    init(_ blueprint: Blueprint, loop: Loop, workers: WorkerGroup, logger: Logger) {
        book = NameBook(loop: loop, settings: blueprint.resolver, forbidden: blueprint.forbidden)
        self.loop = loop
        self.workers = workers
        self.logger = logger
    }

    /// Resolves names before workers start. Blocks, and returns early if the loop is stopped.
    ///
    /// - Returns: The blueprint with the addresses that are known then.
    func resolve(_ blueprint: Blueprint) -> Blueprint {
        book.onEvent = { [unowned self] in report($0) }
        book.follow(blueprint.namedServers)
        var isAnswered = false
        book.whenAnswered(within: Self.patience) { [unowned self] in
            isAnswered = true
            loop.stop()
        }
        if !isAnswered { loop.run() }
        for (server, _) in book.unresolved where !book.counts(of: server).isFailing {
            logger.warning("\(server) is not resolved yet and receives no requests until it is")
        }
        book.onChange = { [unowned self] in changed($0) }
        return blueprint.located(by: book.addresses)
    }

    private func report(_ event: NameBook.Event) {
        switch event {
        case .failing(let server, let fault, 0):
            logger.warning("\(server) cannot be resolved and receives no requests until it can be: \(fault.text)")
        case .failing(let server, let fault, let kept):
            let addresses = kept == 1 ? "its address is" : "its \(kept) addresses are"
            logger.warning("\(server) can no longer be resolved, \(addresses) still used: \(fault.text)")
        case .recovered(let server): logger.notice("\(server) is resolved again")
        case .refused(let server, let address, let reason):
            logger.warning("\(server) resolves to \(address.host), which \(reason): it is not used")
        }
    }

    // MARK: - Changes

    private func changed(_ servers: [NamedServer]) {
        for worker in delivery.changed(servers, for: workers.running) { send(servers, to: worker) }
    }

    /// Called when a worker uses the addresses it was sent.
    func taken(by worker: Int) {
        if let more = delivery.taken(by: worker) { send(more, to: worker) }
    }

    /// Called when a worker has ended.
    func ended(_ worker: Int) { delivery.ended(worker) }

    private func send(_ servers: some Sequence<NamedServer>, to worker: Int) {
        workers.tell(worker, .readdress(servers.map { ($0, book.addresses(of: $0)) }))
    }

    // MARK: - Configurations

    /// Follows the names of the configuration that is served, and no others.
    func follow(_ served: Blueprint) {
        book.configure(served.resolver, served.forbidden)
        book.follow(served.namedServers)
    }

    /// Follows also the names of the next configuration.
    ///
    /// - Parameter completion: Called when they are resolved, or after a timeout, with the addresses filled in.
    func follow(_ served: Blueprint, andNext next: Blueprint, _ completion: @escaping (Blueprint) -> Void) {
        book.configure(next.resolver, next.forbidden)
        book.follow(served.namedServers.union(next.namedServers))
        book.whenAnswered(within: Self.patience) { [unowned self] in completion(next.located(by: book.addresses)) }
    }
}
