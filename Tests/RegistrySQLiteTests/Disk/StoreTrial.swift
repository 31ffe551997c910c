import Chance
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

/// A store on a failing disk that is used until the power fails, again and again, and looked at after each cut: whether it holds
/// all that it has acknowledged.
final class StoreTrial {
    let disk: FailingDisk
    private let scratch: Scratch
    private let path: String
    private let options: StoreOptions
    /// What goes wrong besides power cuts; none if empty.
    private let faults: [FailingDisk.Fault]
    private let witness: WitnessSettings?
    private var generator: SeededGenerator

    /// Values acknowledged, by device; and those with no answer, or one that leaves it open.
    private var committed: [Int: Set<UInt32>] = [:]
    private var unknown: [Int: Set<UInt32>] = [:]
    private var highest: [Int: UInt32] = [:]
    /// Devices by their numbers, with the ids that were acknowledged.
    private var registered: [Int: DeviceID] = [:]
    private var revoked: Set<Int> = []
    /// Those whose revocation was not acknowledged.
    private var doubtful: Set<Int> = []
    private var usedNonces: Set<Int> = []
    private var number = 0

    private(set) var acknowledged = 0
    private(set) var cuts = 0
    private(set) var recoveries = 0
    /// The promises that were broken.
    private(set) var broken: [String] = []

    /// - Parameter witness: of files that lose nothing in the cuts.
    init(
        _ scratch: Scratch, seed: UInt64, options: StoreOptions = StoreOptions(), faults: [FailingDisk.Fault] = [],
        witness: WitnessSettings? = nil
    ) {
        self.scratch = scratch
        disk = FailingDisk(scratch.path, seed: seed)
        path = scratch.file()
        self.options = options
        self.faults = faults
        self.witness = witness
        generator = SeededGenerator(seed: seed &+ 1)
    }

    /// Until so many cuts were survived, or a promise is broken.
    func run(cuts count: Int) {
        while cuts < count, broken.isEmpty {
            disk.cut(after: random(0..<[20, 150, 900][random(0..<3)]))
            while !disk.isOff, broken.isEmpty { live() }
            disk.fail(nil)
            disk.powerOn()
            cuts += 1
            if broken.isEmpty { check() }
        }
    }

    private func random(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

    private func isBroken(_ promise: String) {
        broken.append("after \(cuts) cuts: \(promise)")
    }

    // MARK: - Use

    /// One process: it ends in order, or with the power.
    private func live() {
        disk.fail(nil)
        let store: RegistryStore
        do {
            store = try RegistryStore(path: path, creating: true, options: options, witness: witness)
        } catch {
            if !disk.isOff { isBroken("does not open: \(error)") }
            return
        }
        if registered.isEmpty { register(8, store) }
        for _ in 0..<random(1..<120) {
            if disk.isOff { return }
            act(store)
            if !store.isAvailable, !disk.isOff { recover(store) }
            if !broken.isEmpty { return }
        }
    }

    private func act(_ store: RegistryStore) {
        switch random(0..<20) {
        case 0: try? store.checkpoint()
        case 1, 2: _ = try? store.fold()
        case 3: while (try? store.fold()) == true {}
        case 4: register(1, store)
        case 5: if random(0..<5) == 0 { revoke(store) }
        case 6: initialize(store)
        case 7: try? store.reopen()
        case 8:
            guard !faults.isEmpty else { return }
            var fault = faults[random(0..<faults.count)]
            fault.after = random(0..<12)
            disk.fail(fault)
        default: commit(store)
        }
        // Between commits, as its thread does.
        if random(0..<2) == 0 { store.makeLogRoom() }
        try? store.tickWitness()
    }

    private var active: [Int] { registered.keys.filter { !revoked.contains($0) && !doubtful.contains($0) }.sorted() }

    private func commit(_ store: RegistryStore) {
        var batch: [(number: Int, counter: UInt32)] = []
        for _ in 0..<[1, 1, 4, 30][random(0..<4)] {
            guard let number = active.randomElement(using: &generator) else { return }
            let counter = (highest[number] ?? 0) + UInt32(random(1..<4))
            highest[number] = counter
            batch.append((number, counter))
        }
        let outcomes = store.commit(batch.map { entry($0.number, $0.counter, store) })
        for ((number, counter), outcome) in zip(batch, outcomes) {
            switch outcome {
            case .committed:
                committed[number, default: []].insert(counter)
                acknowledged += 1
            case .storeUnavailable: unknown[number, default: []].insert(counter)
            default: isBroken("value \(counter) of \(number), never used, is \(outcome)")
            }
        }
    }

    private func entry(_ number: Int, _ counter: UInt32, _ store: RegistryStore) -> CounterEntry {
        guard let id = registered[number] else { fatalError("only registered ones are used") }
        return CounterEntry(
            device: id, binding: Fixture.bindingKey(number), counter: counter, epoch: store.identity.epoch, shown: [],
            mode: window(1024))
    }

    private func register(_ count: Int, _ store: RegistryStore) {
        for _ in 0..<count {
            // Registered, and bound. Whether one that was not acknowledged is there is not promised, so it has its own number.
            number += 1
            guard
                let details = try? store.register(
                    Fixture.identity(number), binding: Fixture.bindingKey(number), at: 1_000)
            else { return }
            registered[number] = details.device.id
        }
    }

    private func revoke(_ store: RegistryStore) {
        guard active.count > 4, let number = active.randomElement(using: &generator), let id = registered[number] else {
            return
        }
        if (try? store.revoke(id)) != nil { revoked.insert(number) } else { doubtful.insert(number) }
    }

    private func initialize(_ store: RegistryStore) {
        number += 1
        guard case .registered? = try? store.initialize(store.initialization(number), at: 1_000) else { return }
        usedNonces.insert(number)
    }

    /// The store has failed. It is opened again as its thread does: until that works, or the cause is gone.
    private func recover(_ store: RegistryStore) {
        for _ in 0..<random(1..<4) {
            if (try? store.reopen()) != nil { break }
        }
        if !store.isAvailable, !disk.isOff {
            disk.fail(nil)
            do { try store.reopen() } catch {
                if !disk.isOff { isBroken("does not recover: \(error)") }
                return
            }
        }
        guard store.isAvailable else { return }
        recoveries += 1
        // What its memory held as spent is so, and from here on in the file too.
        for (number, counters) in unknown where !revoked.contains(number) && !doubtful.contains(number) {
            let reach = (highest[number] ?? 0) - min(highest[number] ?? 0, 1_000)
            committed[number, default: []].formUnion(counters)
            refuse(counters.filter { $0 > reach }, of: number, store, "not acknowledged, and in memory")
        }
        unknown = [:]
    }

    // MARK: - What must hold

    private func check() {
        let store: RegistryStore
        do {
            store = try RegistryStore(path: path, creating: true, options: options, witness: witness)
        } catch {
            return isBroken("does not open: \(error)")
        }
        for (number, id) in registered {
            guard let details = try? store.show(.hardwareKey(Fixture.hardwareKey(number))), details.device.id == id
            else { return isBroken("device \(number) is gone") }
            let isRevoked = details.device.state == .revoked
            if revoked.contains(number), !isRevoked { return isBroken("device \(number) is no longer revoked") }
            if isRevoked, !revoked.contains(number), !doubtful.contains(number) {
                return isBroken("device \(number) is revoked, and by nobody")
            }
            if isRevoked { revoked.insert(number) }
        }
        doubtful = []
        for number in usedNonces {
            let verdict = try? store.initialize(
                store.initialization(number + 1_000_000, nonce: Fixture.nonce(number)), at: 1_000)
            if verdict?.refusal != .nonceUsed { return isBroken("nonce \(number) is \(String(describing: verdict))") }
        }
        for number in active {
            let reach = (highest[number] ?? 0) - min(highest[number] ?? 0, 1_000)
            refuse((committed[number] ?? []).filter { $0 > reach }, of: number, store, "acknowledged")
            // The others: at most once.
            for counter in (unknown[number] ?? []).filter({ $0 > reach }).sorted() {
                let outcomes = [0, 1].map { _ in store.commit([entry(number, counter, store)])[0] }
                if outcomes[1] != .replayed || outcomes[0] != .committed && outcomes[0] != .replayed {
                    isBroken("value \(counter) of \(number), of unknown fate, is \(outcomes)")
                }
                committed[number, default: []].insert(counter)
            }
            unknown[number] = nil
        }
    }

    private func refuse(_ counters: Set<UInt32>, of number: Int, _ store: RegistryStore, _ what: String) {
        let sorted = counters.sorted()
        let outcomes = store.commit(sorted.map { entry(number, $0, store) })
        for (counter, outcome) in zip(sorted, outcomes) where outcome != .replayed {
            if outcome == .storeUnavailable, disk.isOff { return }
            isBroken("value \(counter) of \(number), \(what), is \(outcome)")
        }
    }
}
