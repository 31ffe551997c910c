import Chance
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite
@testable import RevocationJournal

/// ATTESTGATE_SEED repeats a run, ATTESTGATE_CASES makes it a longer one.
@Suite("Stores after a power cut")
struct PowerCutTests {
    private static let seed = RunSeed.value
    private static let cases = ProcessInfo.processInfo.environment["ATTESTGATE_CASES"].flatMap(Int.init) ?? 10

    private func run(
        seed: UInt64, _ durability: StoreOptions.Durability = .full, faults: [FailingDisk.Fault] = [],
        witness: WitnessSettings? = nil
    ) throws -> StoreTrial {
        var options = StoreOptions()
        options.durability = durability
        options.pagesBeforeLogRoom = 2
        options.logRoomSlice = 20_000
        let trial = StoreTrial(
            try Scratch(inMemory: true), seed: seed, options: options, faults: faults, witness: witness)
        trial.run(cuts: 12)
        return trial
    }

    @Test("everything acknowledged survives every cut, and nothing is accepted twice")
    func durable() throws {
        RunSeed.tell()
        var acknowledged = 0
        for number in 0..<Self.cases {
            let seed = Self.seed &+ UInt64(number)
            let trial = try run(seed: seed)
            #expect(trial.broken == [], "ATTESTGATE_SEED=\(seed) ATTESTGATE_CASES=1")
            acknowledged += trial.acknowledged
        }
        // It was in use, each time for long enough to be folded and moved.
        #expect(acknowledged > 20 * Self.cases)
    }

    @Test("no cut makes the store look rolled back, though the witness loses nothing")
    func witnessed() throws {
        RunSeed.tell()
        for number in 0..<Self.cases {
            let seed = Self.seed &+ UInt64(number)
            let file = try WitnessedFile()
            let trial = try run(seed: seed, witness: file.settings())
            #expect(trial.broken == [], "ATTESTGATE_SEED=\(seed) ATTESTGATE_CASES=1")
            #expect(file.heard() == [], "ATTESTGATE_SEED=\(seed) ATTESTGATE_CASES=1")
            #expect(try file.mark() != nil)
        }
    }

    @Test("the test detects a store with synchronous=NORMAL or OFF", arguments: [1, 0])
    func undurable(_ setting: Int) throws {
        RunSeed.tell()
        let durability = try #require(StoreOptions.Durability(rawValue: setting))
        for number in 0..<20 {
            if try !run(seed: Self.seed &+ UInt64(number), durability).broken.isEmpty { return }
        }
        Issue.record("no promise was broken: the cuts show nothing. ATTESTGATE_SEED=\(Self.seed)")
    }

    // MARK: - Each moment of what happens once

    /// Cuts the power in the midst of every operation of `work` in turn, several times since each cut leaves something else,
    /// and looks at what is found.
    private func cutEverywhere(
        prepare: (Scratch) throws -> Void = { _ in }, work: (Scratch) throws -> Void,
        check: (Scratch, String) throws -> Void
    ) throws {
        RunSeed.tell()
        for round in 0..<max(1, Self.cases / 5) {
            for moment in 0..<10_000 {
                let scratch = try Scratch(inMemory: true)
                try prepare(scratch)
                let disk = FailingDisk(scratch.path, seed: Self.seed &+ UInt64(round * 10_000 + moment))
                disk.cut(after: moment)
                try? work(scratch)
                let isOver = !disk.isOff
                disk.powerOn()
                try withExtendedLifetime(disk) {
                    try check(scratch, "ATTESTGATE_SEED=\(Self.seed), round \(round), cut in operation \(moment)")
                }
                if isOver { break }
                #expect(moment < 9_999)
            }
        }
    }

    @Test("a store whose creation was interrupted anywhere is created at the next opening")
    func creation() throws {
        try cutEverywhere { scratch in
            try RegistryStore(path: scratch.file(), creating: true).populate(1)
        } check: { scratch, place in
            #expect(throws: Never.self, "\(place)") {
                let store = try RegistryStore(path: scratch.file(), creating: true)
                if (try? store.show(.hardwareKey(Fixture.hardwareKey(1)))) == nil { try store.populate(1) }
                #expect(store.commit(1, 1) == .committed, "\(place)")
            }
        }
    }

    @Test("a version 1 file whose migration was interrupted anywhere keeps its content")
    func migration() throws {
        let template = try Scratch()
        let identity = try FirstVersion.write(template)
        try cutEverywhere { scratch in
            try FileManager.default.copyItem(atPath: template.file(), toPath: scratch.file())
        } work: { scratch in
            _ = try RegistryStore(path: scratch.file(), creating: false)
        } check: { scratch, place in
            #expect(throws: Never.self, "\(place)") {
                let store = try RegistryStore(path: scratch.file(), creating: false)
                #expect(store.identity == identity, "\(place)")
                #expect(try store.devices(after: nil, limit: 10).map(\.highestCounter) == [20, 0, 0], "\(place)")
                #expect(try store.devices(after: nil, limit: 10).map(\.state) == [.active, .revoked, .active])
                for value: UInt32 in [10, 12, 20] {
                    #expect(store.commit(1, value, mode: window(1024)) == .replayed, "\(place)")
                }
            }
        }
    }
}
