import Chance
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// What phones and operators do, one thing after the other.
struct ExportTraffic {
    private var devices = 0
    private var uses = 0
    private var counters: [Int: UInt32] = [:]
    private var keys: [Int: Int] = [:]
    /// Tokens that were used, each for an mTLS key.
    private(set) var tokens: [(Fingerprint, KeyID)] = []

    mutating func step(_ store: AskedStore, _ random: inout SeededGenerator) throws {
        let number = Int.random(in: 1...max(1, devices), using: &random)
        switch devices == 0 ? 0 : Int.random(in: 0..<8, using: &random) {
        case 0, 1: try enrol(store)
        case 2, 3: try bind(number, store)
        case 7:
            let device = try store.details(.show(.hardwareKey(Fixture.hardwareKey(number)))).device
            try store.perform(.revoke(device.id))
        default:
            guard let key = keys[number] else { return }
            let id = try store.details(.show(.hardwareKey(Fixture.hardwareKey(number)))).device.id
            counters[number, default: 0] += 1
            _ = try store.commit(id, key, counters[number] ?? 0)
        }
    }

    private mutating func enrol(_ store: AskedStore) throws {
        devices += 1
        uses += 1
        _ = try store.initialize(store.initialization(devices, nonce: Fixture.nonce(uses)))
        try bind(devices, store)
    }

    private mutating func bind(_ number: Int, _ store: AskedStore) throws {
        uses += 1
        counters[number, default: 0] += 1
        let token = Fixture.token(uses)
        let request = store.keyBinding(
            number, key: uses, nonce: uses, counter: counters[number] ?? 0,
            admission: .token(token, subject: Fixture.subject(number)))
        guard try store.bind(request).refusal == nil else { return }
        keys[number] = uses
        tokens.append((token.id, Fixture.bindingKey(uses)))
    }
}
