import Chance
import EventLoop
import Foundation
import Glibc
import RegistryMemory
import Synchronization
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// ATTESTGATE_SEED repeats a run, ATTESTGATE_CASES makes it a longer one.
@Suite("Stores on a failing disk")
struct DiskFaultTests {
    private static let seed = RunSeed.value
    private static let cases = ProcessInfo.processInfo.environment["ATTESTGATE_CASES"].flatMap(Int.init) ?? 8

    private static let faults: [FailingDisk.Fault] = [
        .init(operations: [.write], times: 1), .init(operations: [.write]), .init(operations: [.write], isFull: true),
        .init(operations: [.sync], times: 1), .init(operations: [.sync], times: 2), .init(operations: [.sync]),
        .init(operations: [.read], times: 1), .init(operations: [.read]),
        .init(operations: [.truncate, .delete], times: 1), .init(operations: [.open], times: 2),
        .init(operations: [.write, .sync, .truncate, .delete]), .init(operations: Set(FailingDisk.Operation.allCases)),
    ]

    @Test("acknowledged changes survive any failure followed by a power cut, and the store recovers")
    func anyFault() throws {
        RunSeed.tell()
        var recoveries = 0
        for number in 0..<Self.cases {
            let seed = Self.seed &+ UInt64(number)
            let trial = StoreTrial(try Scratch(inMemory: true), seed: seed, faults: Self.faults)
            trial.run(cuts: 12)
            #expect(trial.broken == [], "ATTESTGATE_SEED=\(seed) ATTESTGATE_CASES=1")
            recoveries += trial.recoveries
        }
        #expect(recoveries > Self.cases)
    }

    // MARK: - What is said

    @Test(
        "each failure refuses the batch with its cause, and the refused value stays used",
        arguments: [
            ([FailingDisk.Operation.write], true, "database or disk is full (SQLite 13)"),
            ([.write], false, "disk I/O error (SQLite 778)"), ([.sync], false, "disk I/O error (SQLite 1034)"),
        ])
    func causes(_ operations: [FailingDisk.Operation], _ isFull: Bool, _ message: String) throws {
        let scratch = try Scratch(inMemory: true)
        let disk = FailingDisk(scratch.path, seed: Self.seed)
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        try store?.populate(2)
        #expect(store?.commit(1, 1) == .committed)
        disk.fail(.init(operations: Set(operations), isFull: isFull))
        #expect(store?.commit(1, 2) == .storeUnavailable)
        #expect(store?.lastFault == message)
        #expect(throws: StoreOpenError.self) { try store?.reopen() }
        #expect(store?.commit(2, 1) == .storeUnavailable)
        disk.fail(nil)
        try store?.reopen()
        #expect(store?.commit(1, 2, mode: window(1024)) == .replayed)
        #expect(store?.commit(1, 3) == .committed)
        disk.cut()
        store = nil
        disk.powerOn()
        let next = try RegistryStore(path: scratch.file(), creating: false)
        for counter: UInt32 in 1...3 { #expect(next.commit(1, counter, mode: window(1024)) == .replayed) }
    }

    @Test("a failed sync that the kernel forgets loses nothing acknowledged later")
    func forgottenSync() throws {
        RunSeed.tell()
        for number in 0..<10 {
            let scratch = try Scratch(inMemory: true)
            let disk = FailingDisk(scratch.path, seed: Self.seed &+ UInt64(number))
            var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
            try store?.populate(2)
            disk.fail(.init(operations: [.sync], times: 1))
            // A log that cannot be copied yet: what holds the store then leaves the file as it is.
            let obstacle = scratch.file() + "-wal.copy"
            try FileManager.default.createDirectory(atPath: obstacle, withIntermediateDirectories: false)
            #expect(store?.commit(1, 1) == .storeUnavailable)
            #expect(throws: StoreOpenError.self) { try store?.reopen() }
            // By the same process, or by the next one after a crash, which closes nothing.
            if number % 2 == 0 {
                try FileManager.default.removeItem(atPath: obstacle)
                try store?.reopen()
            } else {
                disk.fail(.init(operations: Set(FailingDisk.Operation.allCases)))
                store = nil
                disk.fail(nil)
                try FileManager.default.removeItem(atPath: obstacle)
                store = try RegistryStore(path: scratch.file(), creating: false)
            }
            #expect(store?.commit(1, 2) == .committed)
            disk.cut()
            store = nil
            disk.powerOn()
            store = try RegistryStore(path: scratch.file(), creating: false)
            #expect(store?.commit(1, 2) == .replayed, "ATTESTGATE_SEED=\(Self.seed &+ UInt64(number))")
        }
    }

    @Test("during a hanging sync counters wait up to the limit, others are refused, all are answered")
    func slow() throws {
        let scratch = try Scratch(inMemory: true)
        let disk = FailingDisk(scratch.path, seed: Self.seed)
        let registry = try startRegistry(scratch, devices: 1, { limits, _ in limits.waitingCounters = 8 })
        defer { registry.stop() }
        let worker = try TestWorker(registry)
        let device = try worker.find(1)
        let epoch = registry.identity.epoch
        let client = try #require(worker.client)
        disk.holdSyncs(true)
        var answers: [UInt32: CounterAcceptance] = [:]
        for counter: UInt32 in 1...20 {
            answers[counter] = client.spend(
                counter, of: device, showing: [], mode: .strict, epoch: epoch, token: UInt64(counter))
        }
        #expect(answers.values.count { $0 == .pending } == 8)
        #expect(answers.values.count { $0 == .storeUnavailable } == 12)
        #expect(registry.metrics.overflows == 12)
        #expect(registry.metrics.waiting == 8)
        Thread.detachNewThread {
            while disk.heldSyncs == 0 { usleep(1_000) }
            disk.holdSyncs(false)
        }
        var committed: Set<UInt32> = []
        worker.run(until: { committed.count == 8 }) { event in
            if case .counter(let token, .committed) = event { committed.insert(UInt32(token)) }
        }
        #expect(committed == Set(answers.filter { $0.value == .pending }.keys))
        // Those refused were not spent.
        #expect(try worker.spend(20, of: device, epoch: epoch) == .committed)
        #expect(registry.metrics.waiting == 0)
    }

    // MARK: - Damage

    @Test("a file damaged in any page is refused on opening and not changed")
    func damagedFile() throws {
        let scratch = try Scratch(inMemory: true)
        try RegistryStore(path: scratch.file(), creating: true).populate(40)
        let whole = try Data(contentsOf: URL(filePath: scratch.file()))
        #expect(whole.count > 20 * 4_096)
        // In the first: the name of the format, its constants, the number of our own kind of file.
        for offset in [0, 21, 68] + stride(from: 4_096, to: whole.count, by: 4_096) {
            var damaged = whole
            damaged.replaceSubrange(offset..<offset + 3, with: [0xA5, 0xA5, 0xA5])
            try damaged.write(to: URL(filePath: scratch.file()))
            let error = #expect(throws: StoreOpenError.self, "octet \(offset)") {
                try RegistryStore(path: scratch.file(), creating: true)
            }
            switch error {
            case .foreign, .corrupted: #expect(error?.description.contains("backup") == true)
            default: Issue.record("octet \(offset): \(String(describing: error))")
            }
            #expect(try Data(contentsOf: URL(filePath: scratch.file())) == damaged)
        }
    }

    @Test("a log damaged before its last commit is refused; damage at its end counts as a torn write")
    func damagedLog() throws {
        let scratch = try Scratch(inMemory: true)
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(2)
        for counter: UInt32 in 1...12 { #expect(store.commit(1, counter) == .committed) }
        // What a crash leaves.
        let path = try scratch.copy(to: "left.db")
        let (file, log) = (URL(filePath: path), URL(filePath: path + "-wal"))
        let (content, whole) = (try Data(contentsOf: file), try Data(contentsOf: log))
        let starts = Array(stride(from: 32, to: whole.count, by: 24 + 4_096))
        #expect(starts.count > 20)
        var opened = 0
        for (index, start) in starts.enumerated() {
            var damaged = whole
            damaged[start + 24 + 1_000] ^= 0x10
            try content.write(to: file)
            try damaged.write(to: log)
            let commits = starts[index...].count { whole[$0 + 4..<$0 + 8].contains { $0 != 0 } }
            if commits < 2 {
                let left = try RegistryStore(path: path, creating: false)
                #expect(left.commit(1, 11) == .replayed, "frame \(index)")
                opened += 1
            } else {
                let error = #expect(throws: StoreOpenError.self, "frame \(index)") {
                    try RegistryStore(path: path, creating: false)
                }
                #expect(error?.description.contains("damaged (its log is damaged, and ") == true)
                #expect(try Data(contentsOf: log) == damaged)
                #expect(try Data(contentsOf: file) == content)
            }
        }
        #expect(opened >= 1)
    }
}
