public import EventLoop
public import Registry

/// The number of devices in the registry, for the status. It is counted in slices between other work of the store, at
/// most once a minute. Belongs to one loop.
public final class DeviceTally {
    private let commands: RegistryRequests
    private var latest: DeviceCount?
    private var countedAt: Instant?
    private var running: DeviceCount?
    private var waiting: [(DeviceCount?) -> Void] = []
    private var timer: LoopTimer?

    /// Devices per slice, about two milliseconds of the store's thread.
    private static let slice = 5_000
    private static let life = TimeSpan.seconds(60)
    /// The time for which a caller waits for the first count. A slower registry has none to show yet.
    private static let patience = TimeSpan.milliseconds(500)

    public init(_ registry: DeviceRegistry, loop: Loop) throws(EventLoopError) {
        commands = try RegistryRequests(registry, loop: loop)
        timer = LoopTimer(loop: loop, interval: Self.patience) { [unowned self] in answer() }
    }

    /// Returns the count.
    ///
    /// - Parameter completion: Called once, at once or shortly after, with nil before the first count.
    public func collect(_ completion: @escaping (DeviceCount?) -> Void) {
        if let countedAt, Instant.now - countedAt < Self.life { return completion(latest) }
        if running == nil {
            running = DeviceCount()
            goOn()
        }
        // A count may be a minute old.
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
            // The store failed. The next status asks again.
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
