internal import Administration
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Registry

/// An upgrade: another process, perhaps with a newer program, takes over sockets and registry. No request is refused.
///
/// If that process fails before it serves, this one continues, or serves again.
extension GatewayProcess {
    /// The time for the new process to read its files, resolve names and connect to its database.
    private static let startPatience = TimeSpan.seconds(60)
    /// The time for requests in flight to be decided. Clients that connect meanwhile wait; a longer upload is
    /// refused.
    private static let windUpPatience = TimeSpan.seconds(3)
    /// The time for the new process to open the registry and to serve.
    private static let servingPatience = TimeSpan.seconds(30)
    /// The time for the lock on the registry to be released when the other process ends.
    static let lockPatience = TimeSpan.seconds(5)

    /// Begins an upgrade.
    ///
    /// - Parameter completion: Called once with the outcome.
    func upgradeAsked(_ completion: @escaping (UpgradeState.Outcome) -> Void) {
        if let obstacle = obstacleToUpgrade {
            logger.error("not upgraded: \(obstacle)")
            failedUpgrade = (obstacle, WallClock.seconds)
            return completion(.failed(obstacle))
        }
        logger.notice("upgrading: starting \(successorCommand.first ?? "")")
        upgrade = UpgradeState(missing: running, completion: completion)
        workers.tellAll(.duplicateSockets)
        if running.contains(Self.enrolmentNumber) { enrolment?.duplicateSockets() }
    }

    private var obstacleToUpgrade: String? {
        if isStopping { return "the gateway is stopping" }
        if upgrade != nil { return "another upgrade is in progress" }
        if reload.isUnderWay { return "a reload is in progress" }
        if !hasBegun || !running.isSubset(of: begun) { return "the gateway has just started" }
        // Its end would be that of the container.
        if getpid() == 1 { return "this is process 1, and its exit would end the container: replace the container" }
        return nil
    }

    func duplicated(_ sockets: [String: Int32]?, by number: Int) {
        guard let upgrade, upgrade.phase == .duplicating, upgrade.missing.remove(number) != nil else {
            return ListeningAddresses.release([sockets ?? [:]])
        }
        if let sockets { upgrade.sockets[number] = sockets } else { upgrade.isShort = true }
        guard upgrade.missing.isEmpty else { return }
        do throws(StartupError) { try startSuccessor(upgrade) } catch { upgradeFailed(error.description) }
    }

    private func startSuccessor(_ upgrade: UpgradeState) throws(StartupError) {
        let own = administration == nil ? [] : administration?.duplicateSockets()
        defer { for descriptor in own ?? [] { close(descriptor) } }
        guard !upgrade.isShort, let own else { throw StartupError("there are not enough descriptors left") }
        let (ours, theirs) = try UpgradeChannel.pair()
        defer { close(theirs) }
        upgrade.phase = .starting
        upgrade.channel = UpgradeChannel(loop: loop, socket: Socket(adopting: ours)) { [unowned self] in heard($0) }
        let descriptors = [theirs] + upgrade.sockets.values.flatMap(\.values) + own
        upgrade.parent = Successor.spawn(
            successorCommand, setting: "\(Inheritance.variable)=first \(descriptors.count - 1)",
            descriptors: descriptors)
        guard upgrade.parent != nil else {
            throw StartupError("\(successorCommand.first ?? ""): \(EventLoopError.text(of: errno))")
        }
        limit(Self.startPatience) { [unowned self] in upgradeFailed("the new process was not ready in time") }
    }

    private func limit(_ patience: TimeSpan, _ action: @escaping () -> Void) {
        upgrade?.timer = LoopTimer(loop: loop, startsIn: patience, action: action)
    }

    // MARK: - Messages of the new process

    /// The reason if a process is killed or is not a gateway: it sends none, and its own output went to this
    /// process's standard error.
    private static let endedItself = "it exited before it served, without a reason"

    private func heard(_ word: UpgradeChannel.Word?) {
        guard let upgrade else { return }
        switch (word, upgrade.phase) {
        // It may arrive after messages of the new process itself.
        case (.started(let process), _): upgrade.successor = upgrade.successor ?? process
        case (.prepared(let process), .starting):
            upgrade.successor = process
            upgrade.reap()
            windUp(upgrade)
        case (.serving, .released): succeeded(upgrade)
        // Its end follows: it may still be writing to standard error.
        case (.failed(let reason), _): upgrade.reportedFailure = reason
        // The new process has ended. This one has announced its own end, and the service manager starts another.
        case (nil, .served): upgrade.channel = nil
        case (nil, _):
            // The exit status of its parent may say why nothing was started.
            let reason = upgrade.reportedFailure ?? upgrade.reap(looks: 200) ?? Self.endedItself
            upgradeFailed("\(successorCommand.first ?? ""): \(reason)")
        default: upgradeFailed("the new process did not follow the upgrade protocol")
        }
    }

    private func windUp(_ upgrade: UpgradeState) {
        upgrade.phase = .windingUp
        upgrade.missing = running
        workers.tellAll(.windUp)
        enrolment?.drain()
        limit(Self.windUpPatience) { [unowned self] in release(upgrade) }
        // Several gateways may share a database, so the new one need not wait for this one's clients.
        if !isRegistryAlone { release(upgrade) }
    }

    /// Records that a thread has nothing in flight that needs the registry.
    func woundUp(by number: Int) {
        guard let upgrade, upgrade.missing.remove(number) != nil, upgrade.missing.isEmpty else { return }
        switch upgrade.phase {
        case .windingUp: release(upgrade)
        case .served: finishUpgrade()
        case .duplicating, .starting, .released: break
        }
    }

    /// Whether no other process can open the registry while this one has it.
    var isRegistryAlone: Bool { registryPath != nil }

    /// The path of the registry's file; nil if it is in a database, or there is none.
    private var registryPath: String? {
        if case .file(let path) = order.blueprint.registry?.store { path } else { nil }
    }

    private func release(_ upgrade: UpgradeState) {
        guard upgrade.phase == .windingUp else { return }
        upgrade.phase = .released
        if isRegistryAlone, let registry = order.enforcement?.registry {
            stop(registry)
            isRegistryOpen = false
        }
        limit(Self.servingPatience) { [unowned self] in upgradeFailed("the new process did not serve in time") }
        upgrade.channel?.tell(.released)
    }

    // MARK: - Success

    private func succeeded(_ upgrade: UpgradeState) {
        guard let process = upgrade.successor else { return }
        upgrade.phase = .served
        notifier?.handOver(to: process)
        notifier = nil
        watchdog = nil
        upgrade.channel?.tell(.announced)
        ListeningAddresses.release(Array(upgrade.sockets.values))
        upgrade.sockets = [:]
        logger.notice("upgraded: process \(process) serves, this process finishes its open requests")
        isStopping = true
        upgrade.completion(.done(process: process))
        administration?.handOver()
        if upgrade.missing.isEmpty { return finishUpgrade() }
        limit(Self.windUpPatience) { [unowned self] in finishUpgrade() }
    }

    private func finishUpgrade() {
        upgrade?.timer = nil
        drain()
    }

    // MARK: - Failure

    /// Cancels the upgrade because the process stops: neither process is to serve.
    func upgradeInterrupted() {
        guard let upgrade, upgrade.phase != .served else { return }
        self.upgrade = nil
        upgrade.channel?.tell(.cancelled)
        if let process = upgrade.successor { kill(process, SIGTERM) }
        upgrade.completion(.failed("the gateway is stopping"))
    }

    private func upgradeFailed(_ reason: String) {
        guard let upgrade, upgrade.phase != .served, upgrade.failure == nil else { return }
        upgrade.failure = reason
        upgrade.timer = nil
        // While the channel is open the process exists, so its id is still its own. Its locks are released when it
        // has ended.
        if upgrade.channel?.isOpen == true {
            // For a process whose id is not known yet.
            upgrade.channel?.tell(.cancelled)
            if let process = upgrade.successor ?? upgrade.parent { kill(process, SIGKILL) }
        }
        upgrade.channel = nil
        upgrade.reap()
        failedUpgrade = (reason, WallClock.seconds)
        logger.error("not upgraded: \(reason)")
        guard upgrade.phase >= .windingUp else { return upgradeEnded(upgrade) }
        // The enrolment thread has stopped accepting and ends: a new one replaces it.
        if isEnrolmentRunning { enrolment?.stop() } else { serveAgain() }
    }

    /// Serves again after a failed upgrade, once the previous enrolment thread has ended.
    func serveAgain() {
        guard let upgrade, upgrade.failure != nil, upgrade.phase < .served else { return }
        do {
            var enforcement = order.enforcement
            if let (settings, _) = enforcement, let registry = order.blueprint.registry, !isRegistryOpen {
                let (reopened, _) = try RegistryOpening(registry, StartPermissions(), logger).open(
                    durability: order.blueprint.durability, isHandover: true, patience: Self.lockPatience)
                enforcement = (settings, reopened)
                isRegistryOpen = true
                try administration?.turn(to: reopened)
            }
            let next = GenerationOrder(
                number: order.number + 1, blueprint: order.blueprint, sessions: order.sessions, limits: order.limits,
                memory: order.memory,
                log: order.log, errors: errorWriter, exporter: exporter, enforcement: enforcement)
            // If a worker fails, this process still has to close the registry.
            order.enforcement = enforcement
            enrolment?.join()
            if let sockets = upgrade.sockets.removeValue(forKey: Self.enrolmentNumber) { try startEnrolment(sockets) }
            let sockets = workers.running.sorted().map { upgrade.sockets.removeValue(forKey: $0) ?? [:] }
            reload.isUnderWay = true
            reload.change = (GenerationChange(workers: workers.running), next)
            workers.prepare(next, sockets: sockets)
        } catch {
            cannotServeAgain("\(error)")
        }
    }

    /// Called at the end of the change that `serveAgain` has begun.
    ///
    /// - Parameter reason: Why it failed; nil if it succeeded.
    func servesAgain(_ reason: String?) {
        guard let upgrade, upgrade.failure != nil else { return }
        if let reason { return cannotServeAgain(reason) }
        logger.notice("this process serves again")
        upgradeEnded(upgrade)
    }

    private func cannotServeAgain(_ reason: String) {
        logger.critical("this process cannot serve again: \(reason)")
        failure = StartupError("neither the new process nor this one can serve: \(reason)")
        if let upgrade { upgradeEnded(upgrade) }
        stopAsked()
    }

    private func upgradeEnded(_ upgrade: UpgradeState) {
        self.upgrade = nil
        upgrade.completion(.failed(upgrade.failure ?? ""))
    }

    // MARK: - Endpoint

    /// `POST /upgrade`: answered when the new process serves, or has failed.
    var upgradeEndpoint: AdministrationEndpoint {
        AdministrationEndpoint(.post, "/upgrade", act: "upgrade") {
            [unowned self] request, reply throws(AdministrationFault) in
            auditLogger.tell(.act(AdministrationAct("upgrade", "upgrade", .begun, by: request.peer)))
            upgradeAsked { outcome in
                switch outcome {
                case .done(let process): reply.send(AdministrationResponse(json: ["process": Int(process)]))
                case .failed(let reason):
                    reply.send(AdministrationResponse(AdministrationFault(422, "upgrade_failed", reason)))
                }
            }
        }
    }
}

/// The other side of an upgrade: the process that takes over.
extension GatewayProcess {
    /// Announces that everything is ready, and waits until the other process has stopped accepting and has released
    /// the registry. Clients that connect meanwhile wait in the sockets' queues. Returns early if this process begins
    /// to stop.
    func awaitRelease() {
        guard let descriptor = inheritance.predecessor else { return }
        var isReleased = false
        // The current conf file may name another file than the other process has open, which is then not handed over.
        let isHeld = registryPath.map { DeviceRegistry.isHeld(path: $0) } ?? false
        let channel = UpgradeChannel(loop: loop, socket: Socket(adopting: descriptor)) { [unowned self] word in
            switch word {
            case .released:
                isReleased = true
                isHandover = isHeld
            // It has ended, and its locks are free, or soon will be.
            case nil:
                isReleased = true
                announced()
            case .announced: announced()
            // The other process continues to serve, or ends in order. Without this message its end would look like a
            // crash, and this process would take over.
            case .cancelled: if !hasBegun, !isStopping { stopAsked() }
            case .started, .prepared, .serving, .failed, .unknown: break
            }
            // Later messages arrive while this process serves.
            if !hasBegun { loop.stop() }
        }
        predecessor = channel
        channel.tell(.prepared(process: getpid()))
        if !isReleased, !isStopping { loop.run() }
    }

    /// Reports to the predecessor, once every thread serves.
    func tellServing() {
        guard let predecessor, running.isSubset(of: begun), !hasReportedServing else { return }
        hasReportedServing = true
        predecessor.tell(.serving)
    }

    /// Called when the service manager watches this process.
    private func announced() {
        guard let channel = predecessor else { return }
        predecessor = nil
        // The channel is handling an event.
        loop.whenTurnEnds { channel.close() }
        if hasBegun { beginNotifying() }
    }
}

/// The state of an upgrade.
///
///     duplicating -> starting -> windingUp -> released -> served: this process ends
///        \______________________\____________\_____ failed: this process serves on, or again
final class UpgradeState {
    enum Phase: Comparable {
        /// The threads duplicate their listening sockets.
        case duplicating
        /// The new process prepares.
        case starting
        /// This process accepts no more, and decides the requests in flight.
        case windingUp
        /// The registry is released to the new process.
        case released
        /// The new process serves.
        case served
    }

    enum Outcome {
        /// - process: The process that serves.
        case done(process: Int32)
        /// This process continues as before.
        case failed(String)
    }

    let completion: (Outcome) -> Void
    var phase = Phase.duplicating
    /// The numbers of the threads whose answers are missing.
    var missing: Set<Int>
    /// Duplicates of listening sockets, by the number of the thread that owns the originals, and by address: for the
    /// new process, and for this one if it has to serve again.
    var sockets: [Int: [String: Int32]] = [:]
    /// Whether a thread had no descriptors left.
    var isShort = false
    /// The started process: the parent of the one that takes over.
    var parent: pid_t?
    /// The process that takes over, once known.
    var successor: pid_t?
    var channel: UpgradeChannel?
    /// The timeout of the phase.
    var timer: LoopTimer?
    /// Why the new process does not serve, as it reported.
    var reportedFailure: String?
    /// Why the upgrade failed; then only serving again is left.
    var failure: String?

    init(missing: Set<Int>, completion: @escaping (Outcome) -> Void) {
        self.missing = missing
        self.completion = completion
    }

    deinit {
        ListeningAddresses.release(Array(sockets.values))
        reap()
    }

    /// Collects the exit status of the started process, if it has ended.
    ///
    /// - Parameter looks: How often to check, with a millisecond between: a process closes its files before it has
    ///   ended.
    /// - Returns: Why nothing was started; nil if unknown.
    @discardableResult
    func reap(looks: Int = 1) -> String? {
        var status: Int32 = 0
        guard let process = parent else { return nil }
        var looks = looks
        while waitpid(process, &status, WNOHANG) != process {
            looks -= 1
            guard looks > 0 else { return nil }
            usleep(1_000)
        }
        parent = nil
        // wait(2): the low seven bits are the signal, the next byte is the status.
        if status & 0x7f != 0 { return "it was killed by signal \(status & 0x7f)" }
        let code = status >> 8 & 0xff
        return code == 0 ? nil : "it exited with status \(code)"
    }
}
