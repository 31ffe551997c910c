internal import EventLoop
internal import Registry
internal import RegistrySQLite
internal import Vocabulary

/// Counters spent as a worker spends them: in memory on its own thread, then durably on the store's, in one commit for all
/// of a turn.
final class CounterOperation {
    /// In a turn, so in a commit: as many as a worker hands over at once.
    private static let batch = 64

    private let registry: DeviceRegistry
    private let loop: Loop
    private var client: RegistryClient?
    private var device: DeviceSnapshot?
    private var committed = 0
    private var refused = 0
    private var counter: UInt32 = 0
    private var turnsLeft = 0

    init(in directory: String, keyOf sample: AttestedSample) throws {
        registry = try DeviceRegistry.start(path: "\(directory)/registry.sqlite", creating: true) { _ in }
        loop = try Loop()
        client = try RegistryClient(registry, loop: loop) { [unowned self] in take($0) }
        guard let app = AppID(AttestedSample.app), let point = PublicPoint(sample.point) else {
            throw Refused(description: "no device")
        }
        let identity = DeviceIdentity(
            app: app, platform: .iOS, environment: .simulator, hardwareKey: sample.keyID, point: point)
        guard client?.perform(.register(identity, binding: sample.keyID), token: 0) == true else {
            throw Refused(description: "no device can be registered")
        }
        loop.run()
        guard case .found(let found)? = try look(sample.keyID) else {
            throw Refused(description: "the device is not there")
        }
        device = found
    }

    private func look(_ key: KeyID) throws -> DeviceLookup? {
        if case .pending? = client?.device(forBinding: key, token: 0) { loop.run() }
        return client?.device(forBinding: key, token: 0)
    }

    private func take(_ event: RegistryEvent) {
        switch event {
        case .counter(_, let outcome):
            if outcome == .committed { committed += 1 } else { refused += 1 }
            if (committed + refused) % Self.batch == 0 { turnIsCommitted() }
        case .device, .reply: loop.stop()
        case .barred, .identity: break
        }
    }

    var operation: CountedOperation {
        CountedOperation(name: "counter", times: 20, each: Self.batch, hasOthers: true) { [self] in try spend($0) }
    }

    private func spend(_ times: Int) throws {
        turnsLeft = times
        // From within the loop, as requests come: what is spent outside of a turn is handed over at once.
        let beginning = LoopTimer(loop: loop, interval: .milliseconds(0)) { [unowned self] in spendTurn() }
        withExtendedLifetime(beginning) { loop.run() }
        guard refused == 0 else { throw Refused(description: "\(refused) counters were not committed") }
    }

    private func spendTurn() {
        guard let client, let device else { return loop.stop() }
        turnsLeft -= 1
        for _ in 0..<Self.batch {
            counter += 1
            let acceptance = client.spend(
                counter, of: device, showing: [], mode: .strict, epoch: registry.identity.epoch, token: 0)
            // No outcome follows; the turn is not complete then.
            if acceptance != .pending {
                refused += 1
                loop.stop()
            }
        }
    }

    private func turnIsCommitted() {
        if turnsLeft > 0 { spendTurn() } else { loop.stop() }
    }

    func stop() {
        client = nil
        registry.stop()
    }
}
