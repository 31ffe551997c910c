import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// A store whose answers a test waits for.
final class AskedStore {
    let loop: Loop
    let backend: any StoreBackend
    private(set) var failures: [String] = []
    private(set) var changes: [StoreChange] = []
    private(set) var recoveries = 0
    private(set) var confirmations = 0
    /// What the store takes for the time.
    var time: Int64
    private var isDone: () -> Bool = { true }

    init(_ backend: any StoreBackend, at time: Int64 = 1_000) throws {
        self.time = time
        loop = try Loop()
        self.backend = backend
        backend.start(on: loop, at: time) { [unowned self] signal in
            switch signal {
            case .failed(let reason): failures.append(reason)
            case .changes(let more): changes += more
            case .recovered: recoveries += 1
            case .confirmed: confirmations += 1
            case .isWorkLeft: loop.whenTurnEnds { [weak self] in self?.backend.workOn() }
            default: break
            }
        }
    }

    convenience init(_ place: any StorePlace) throws {
        try self.init(try place.open())
    }

    deinit {
        var isFinished = false
        backend.finish { isFinished = true }
        run { isFinished }
    }

    var identity: StoreIdentity { backend.identity }

    /// Serves the loop until the condition holds, or a minute has passed.
    ///
    /// - Parameter ticks: the interval between two ticks of the store.
    /// - Returns: whether it holds.
    @discardableResult
    func run(ticks: TimeSpan = .milliseconds(100), until condition: @escaping () -> Bool) -> Bool {
        if condition() { return true }
        let watch = LoopTimer(loop: loop, interval: .milliseconds(1), repeats: true) { [loop] in
            if condition() { loop.stop() }
        }
        // As the store's thread does.
        let ticks = LoopTimer(loop: loop, interval: ticks, repeats: true) { [unowned self] in
            backend.tick(at: time)
        }
        let limit = LoopTimer(loop: loop, interval: .seconds(60)) { [loop] in loop.stop() }
        withExtendedLifetime((watch, ticks, limit)) { loop.run() }
        return condition()
    }

    // MARK: - Questions

    func commit(_ entries: [CounterEntry]) throws -> [CounterOutcome] {
        var outcomes = [CounterOutcome?](repeating: nil, count: entries.count)
        backend.commit(entries) { index, outcome in
            #expect(outcomes[index] == nil, "answered twice")
            outcomes[index] = outcome
        }
        run { outcomes.allSatisfy { $0 != nil } }
        return try outcomes.map { try #require($0) }
    }

    func commit(
        _ device: DeviceID, _ key: Int, _ counter: UInt32, showing shown: ShownExtensions = [],
        mode: CounterMode = .strict
    ) throws -> CounterOutcome {
        try commit([entry(device, key, counter, showing: shown, mode: mode)])[0]
    }

    /// - Parameter key: the number of the binding's.
    func entry(
        _ device: DeviceID, _ key: Int, _ counter: UInt32, showing shown: ShownExtensions = [],
        mode: CounterMode = .strict, epoch: RandomID? = nil
    ) -> CounterEntry {
        CounterEntry(
            device: device, binding: Fixture.bindingKey(key), counter: counter, epoch: epoch ?? identity.epoch,
            shown: shown, mode: mode)
    }

    func find(_ key: Int) throws -> FoundDevice? {
        var answer: Result<FoundDevice?, StoreError>?
        backend.find(Fixture.bindingKey(key)) { answer = $0 }
        run { answer != nil }
        return try #require(answer).get()
    }

    @discardableResult
    func perform(_ command: RegistryCommand, at time: Int64 = 1_000) throws -> RegistryReply {
        var answer: Result<RegistryReply, StoreError>?
        backend.perform(command, at: time) { answer = $0 }
        run { answer != nil }
        return try #require(answer).get()
    }

    // MARK: - The same by what they answer

    @discardableResult
    func details(_ command: RegistryCommand, at time: Int64 = 1_000) throws -> DeviceDetails {
        guard case .device(let details) = try perform(command, at: time) else { throw OtherReply() }
        return details
    }

    /// Registers devices 1 to `count`, each bound to the key of its number.
    @discardableResult
    func populate(_ count: Int) throws -> [DeviceID] {
        try (1...count).map {
            try details(.register(Fixture.identity($0), binding: Fixture.bindingKey($0))).device.id
        }
    }

    func initialize(_ request: InstanceRegistration, at time: Int64 = 1_000) throws -> InitializationVerdict {
        guard case .initialization(let verdict) = try perform(.initialize(request), at: time) else {
            throw OtherReply()
        }
        return verdict
    }

    func bind(_ request: BindingRequest, at time: Int64 = 1_000) throws -> KeyBindingVerdict {
        guard case .keyBinding(let verdict) = try perform(.bindKey(request), at: time) else { throw OtherReply() }
        return verdict
    }

    struct OtherReply: Error {}

    /// Returns a device's posture in its last announcement. Nil without one.
    func announcedPosture(_ number: Int64) -> Posture? {
        changes.compactMap { change in
            if case .device(let update) = change, update.id.number == number { update.posture } else { nil }
        }.last
    }

    /// Returns whether a device's key is listed in its last announcement. Nil without one.
    func announced(_ number: Int64) -> Bool? {
        changes.compactMap { change in
            if case .device(let update) = change, update.id.number == number { update.isKeyListed } else { nil }
        }.last
    }

    /// The keys that connections were to be closed of.
    var closed: [KeyID] {
        changes.flatMap { change in
            switch change {
            case .barred(let keys), .ended(let keys): keys
            default: [KeyID]()
            }
        }
    }

    func initialization(
        _ number: Int, nonce: SingleUse? = nil, attestation: AttestationRecord? = nil,
        showing shown: ShownExtensions = [], epoch: RandomID? = nil
    ) -> InstanceRegistration {
        InstanceRegistration(
            identity: Fixture.identity(number), attestation: attestation ?? Fixture.attestation(number),
            shown: shown, nonce: nonce ?? Fixture.nonce(number), epoch: epoch ?? identity.epoch)
    }

    /// Binds `key` to device `number`. Nonces of bindings are those from 1,000 on.
    func keyBinding(
        _ number: Int, key: Int, nonce: Int, counter: UInt32, showing shown: ShownExtensions = [],
        mode: CounterMode = .strict, admission: AdmissionGrant = .open, overlap: Int64 = 100, epoch: RandomID? = nil,
        serial: CertificateSerial? = nil, notAfter: Int64 = 50_000, phone: AttestedPhone? = nil,
        keyAttestation: CertificateKeyAttestation? = nil, app: ShownApp = ShownApp(), renewal: KeyRenewal = .permitted
    ) -> BindingRequest {
        BindingRequest(
            hardwareKey: Fixture.hardwareKey(number), key: Fixture.bindingKey(key), nonce: Fixture.nonce(1_000 + nonce),
            epoch: epoch ?? identity.epoch, counter: counter, shown: shown, mode: mode, admission: admission,
            overlap: overlap, serial: serial ?? Fixture.randomSerial(), notAfter: notAfter,
            phone: phone, keyAttestation: keyAttestation, app: app, renewal: renewal)
    }
}
