public import EventLoop
public import Registry

/// How many devices the registry has, for status: counted in slices between which the store does everything else, and not again
/// before a minute is over. Belongs to one loop.
public final class DeviceTally {
    private let commands: RegistryCommands
    private var latest: DeviceCount?
    private var countedAt: Instant?
    private var running: DeviceCount?
    private var waiting: [(DeviceCount?) -> Void] = []
    private var timer: LoopTimer?

    /// Some two milliseconds of the store's thread.
    private static let slice = 5_000
    private static let life = TimeSpan.seconds(60)
    /// How long somebody waits for the first count. A registry that takes longer has none to show yet.
    private static let patience = TimeSpan.milliseconds(500)

    public init(_ registry: DeviceRegistry, loop: Loop) throws(EventLoopError) {
        commands = try RegistryCommands(registry, loop: loop)
        timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in answer() }
    }

    /// - Parameter completion: called once, at once or a little later; with nil while nothing has been counted yet.
    public func collect(_ completion: @escaping (DeviceCount?) -> Void) {
        if let countedAt, Instant.now - countedAt < Self.life { return completion(latest) }
        if running == nil {
            running = DeviceCount()
            goOn()
        }
        // A count that is up to a minute old is good enough here.
        guard latest == nil, running != nil else { return completion(latest) }
        waiting.append(completion)
        timer?.start()
    }

    private func goOn() {
        commands.perform(.count(after: running?.next, limit: Self.slice)) { [weak self] result in
            self?.take(result)
        }
    }

    private func take(_ result: Result<RegistryReply, AdministrationFault>) {
        guard case .success(.count(let some)) = result, var sum = running else {
            // The store fails: asked again with the next status.
            running = nil
            return answer()
        }
        sum.active += some.active
        sum.pending += some.pending
        sum.revoked += some.revoked
        sum.next = some.next
        running = sum
        guard some.next == nil else { return goOn() }
        (latest, countedAt, running) = (sum, .now, nil)
        answer()
    }

    private func answer() {
        let those = waiting
        waiting = []
        for completion in those { completion(latest) }
    }
}
