import EventLoop
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// A worker in one thread of a test: a loop, a client, and the events it received from the registry.
final class TestWorker {
    let loop: Loop
    private(set) var client: RegistryClient?
    private(set) var events: [RegistryEvent] = []
    private var handle: (RegistryEvent) -> Void = { _ in }
    private var isDone: () -> Bool = { true }

    init(_ registry: DeviceRegistry) throws {
        loop = try Loop()
        client = try RegistryClient(registry, loop: loop) { [unowned self] event in
            events.append(event)
            handle(event)
            if isDone() { loop.stop() }
        }
    }

    /// Serves events until the condition holds, or half a minute has passed. - Returns: whether it holds.
    @discardableResult
    func run(until isDone: @escaping () -> Bool, handle: @escaping (RegistryEvent) -> Void = { _ in }) -> Bool {
        if isDone() { return true }
        self.isDone = isDone
        self.handle = handle
        let limit = LoopTimer(loop: loop, interval: .seconds(30)) { [unowned self] in loop.stop() }
        withExtendedLifetime(limit) { loop.run() }
        self.handle = { _ in }
        return isDone()
    }

    /// Looks up, and waits if that is needed.
    func look(_ key: KeyID) throws -> DeviceLookup {
        let answer = try #require(client).device(forBinding: key, token: 1)
        guard case .pending = answer else { return answer }
        var found: DeviceLookup?
        run(until: { found != nil }) { if case .device(_, let lookup) = $0 { found = lookup } }
        return try #require(found)
    }

    func find(_ device: Int) throws -> DeviceSnapshot {
        let lookup = try look(Fixture.bindingKey(device))
        guard case .found(let snapshot) = lookup else { throw NotFound(lookup: lookup) }
        return snapshot
    }

    struct NotFound: Error {
        let lookup: DeviceLookup
    }

    /// Spends, and waits for the outcome of what was accepted.
    func spend(
        _ counter: UInt32, of device: DeviceSnapshot, showing shown: ShownExtensions = [], mode: CounterMode = .strict,
        epoch: RandomID
    ) throws -> CounterOutcome {
        switch try #require(client).spend(counter, of: device, showing: shown, mode: mode, epoch: epoch, token: 7) {
        case .replayed: return .replayed
        case .late(let highest): return .late(highest: highest)
        case .deviceRevoked: return .deviceRevoked
        case .extensionWithheld: return .extensionWithheld
        case .storeUnavailable: return .storeUnavailable
        case .pending:
            var outcome: CounterOutcome?
            run(until: { outcome != nil }) { if case .counter(7, let reported) = $0 { outcome = reported } }
            return try #require(outcome)
        }
    }

    func perform(_ command: RegistryCommand) throws -> Result<RegistryReply, StoreError> {
        #expect(try #require(client).perform(command, token: 9))
        var result: Result<RegistryReply, StoreError>?
        run(until: { result != nil }) { if case .reply(9, let reported) = $0 { result = reported } }
        return try #require(result)
    }

    var barred: [KeyID] {
        events.flatMap { if case .barred(let keys) = $0 { keys } else { [KeyID]() } }
    }
}

/// A registry with devices 1 to `count`.
func startRegistry(
    _ scratch: Scratch, devices count: Int, _ change: (inout RegistryLimits, inout StoreOptions) -> Void = { _, _ in },
    observe: @escaping @Sendable (StoreEvent) -> Void = { _ in }
) throws -> DeviceRegistry {
    var preparing = StoreOptions()
    preparing.durability = .off
    try RegistryStore(path: scratch.file(), creating: true, options: preparing).populate(count)
    var limits = RegistryLimits()
    var options = StoreOptions()
    change(&limits, &options)
    return try DeviceRegistry.start(
        path: scratch.file(), creating: false, limits: limits, options: options, observe: observe)
}
