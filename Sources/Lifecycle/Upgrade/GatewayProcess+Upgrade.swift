internal import Administration
internal import EventLoop
internal import Gateway
internal import Glibc
internal import Registry

/// Giving way to another process, with a newer program perhaps, that takes over sockets and registry: no request is refused for it.
///
/// If that process fails before it serves, this one serves on, or again.
extension GatewayProcess {
    /// For its files to be read, its names to be looked up, its database to be reached.
    private static let startPatience = TimeSpan.seconds(60)
    /// For requests under way to be decided. Clients that connect meanwhile wait; an upload that takes longer is
    /// refused.
    private static let windUpPatience = TimeSpan.seconds(3)
    /// For the other process to open the registry and to serve.
    private static let servingPatience = TimeSpan.seconds(30)
    /// For its lock on the registry to go with it.
    static let lockPatience = TimeSpan.seconds(5)

    /// - Parameter completion: called once with the outcome.
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
        // Whose end is the container's.
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

    // MARK: - What the new process says

    /// A process that is killed, or is no gateway, says nothing here; what it says went where this process writes its own.
    private static let endedItself = "it exited before it served, without a reason"

    private func heard(_ word: UpgradeChannel.Word?) {
        guard let upgrade else { return }
        switch (word, upgrade.phase) {
        // It may come behind what that process says itself.
        case (.started(let process), _): upgrade.successor = upgrade.successor ?? process
        case (.prepared(let process), .starting):
            upgrade.successor = process
            upgrade.reap()
            windUp(upgrade)
        case (.serving, .released): succeeded(upgrade)
        // Its end follows: it may be in the middle of telling it on standard error.
        case (.failed(let reason), _): upgrade.reportedFailure = reason
        // It is gone after all. This process has promised to end, and the service manager starts another.
        case (nil, .served): upgrade.channel = nil
        case (nil, _):
            // Its parent's end says why nothing was started, where it says anything.
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
        // Several gateways may have a database, and none may wait for this one's clients.
        if !isRegistryAlone { release(upgrade) }
    }

    /// A thread asks nothing more that anybody waits for.
    func woundUp(by number: Int) {
        guard let upgrade, upgrade.missing.remove(number) != nil, upgrade.missing.isEmpty else { return }
        switch upgrade.phase {
        case .windingUp: release(upgrade)
        case .served: finishUpgrade()
        case .duplicating, .starting, .released: break
        }
    }

    /// Whether no other process can have the registry as long as this one has.
    var isRegistryAlone: Bool { registryPath != nil }

    /// The registry's file; nil if it is in a database, or there is none.
    var registryPath: String? {
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

    // MARK: - It serves

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

    // MARK: - It does not

    /// The process stops while another one is about to take over: neither is to serve.
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
        // It holds its end of the way, so the number is still its own. What it has is free when it is gone.
        if upgrade.channel?.isOpen == true {
            // For one whose number nobody has said yet.
            upgrade.channel?.tell(.cancelled)
            if let process = upgrade.successor ?? upgrade.parent { kill(process, SIGKILL) }
        }
        upgrade.channel = nil
        upgrade.reap()
        failedUpgrade = (reason, WallClock.seconds)
        logger.error("not upgraded: \(reason)")
        guard upgrade.phase >= .windingUp else { return upgradeEnded(upgrade) }
        // Its thread has stopped accepting, and ends: another takes its place.
        if isEnrolmentRunning { enrolment?.stop() } else { serveAgain() }
    }

    /// Once the previous enrolment thread has ended.
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
            // Should a worker fail, the registry is still this one's to close.
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

    /// How the change ended that `serveAgain` has begun. - Parameter reason: why it failed; nil if it did not.
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

    // MARK: - Who asks for it

    /// `POST /upgrade`: answered when the other process serves, or has failed.
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
