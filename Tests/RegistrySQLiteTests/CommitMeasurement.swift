import Chance
import Foundation
import Glibc
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

/// What durable counters cost. Prints, and promises nothing: run it in a release build with `ATTESTGATE_MEASURE=1`.
@Suite("Measurement", .serialized, .enabled(if: ProcessInfo.processInfo.environment["ATTESTGATE_MEASURE"] != nil))
struct CommitMeasurement {
    private static let devices = 100_000

    @Test("commits per second, and CPU time per counter", arguments: [1, 16, 128, 1024])
    func commits(_ batchSize: Int) throws {
        let scratch = try Scratch()
        var options = StoreOptions()
        options.durability = .off
        options.recordLimit = 2 * Self.devices
        try RegistryStore(path: scratch.file(), creating: true, options: options).populate(Self.devices)
        options.durability = .full
        let store = try RegistryStore(path: scratch.file(), creating: false, options: options)
        var generator = SeededGenerator(seed: 1)
        // Records in memory, as in a process that has served these devices before.
        for device in 1...Self.devices { _ = try store.find(Fixture.bindingKey(device)) }

        var counters = [UInt32](repeating: 0, count: Self.devices + 1)
        func makeBatches(_ count: Int) -> [[CounterEntry]] {
            (0..<count).map { _ in
                (0..<batchSize).map { _ in
                    let device = Int.random(in: 1...Self.devices, using: &generator)
                    counters[device] += 1
                    return store.entry(device, counters[device], mode: .unspent)
                }
            }
        }
        // A log that has been through a checkpoint is written over; a new one grows, and syncing it costs more.
        for batch in makeBatches(max(100, 40_000 / batchSize)) { _ = store.commit(batch) }
        while try store.fold() {}
        try store.checkpoint()

        let batches = makeBatches(max(100, 32_768 / batchSize))
        var times: [Double] = []
        var committed = 0
        let commitCost = measure {
            for batch in batches {
                let start = DispatchTime.now().uptimeNanoseconds
                committed += store.commit(batch).count { $0 == .committed }
                times.append(Double(DispatchTime.now().uptimeNanoseconds - start) / 1_000)
            }
        }
        #expect(committed == batches.count * batchSize)
        times.sort()
        let rows = store.journalLength
        var slices: [Double] = []
        let foldCost = try measure {
            while store.journalLength > 0 {
                let start = DispatchTime.now().uptimeNanoseconds
                _ = try store.fold()
                slices.append(Double(DispatchTime.now().uptimeNanoseconds - start) / 1_000_000)
            }
        }
        let pages = store.logPages
        let checkpointCost = try measure { try store.checkpoint() }
        func text(_ value: Double) -> String { String(format: "%.2f", value) }
        print(
            """
            batch \(batchSize): \(Int(Double(batches.count) / commitCost.wall)) commits/s, \
            \(text(commitCost.processor * 1e6 / Double(committed))) us CPU a counter, \
            commit p50 \(text(times[times.count / 2])) p99 \(text(times[times.count * 99 / 100])) us; \
            fold \(text(foldCost.processor * 1e6 / Double(rows))) us CPU a row, \
            longest slice \(text(slices.max() ?? 0)) ms; \
            checkpoint of \(pages) pages \(text(checkpointCost.wall * 1e3)) ms
            """)
    }

    /// Seconds by the clock, and of this thread's processor time.
    private func measure(_ body: () throws -> Void) rethrows -> (wall: Double, processor: Double) {
        let start = (read(CLOCK_MONOTONIC), read(CLOCK_THREAD_CPUTIME_ID))
        try body()
        return (read(CLOCK_MONOTONIC) - start.0, read(CLOCK_THREAD_CPUTIME_ID) - start.1)
    }

    private func read(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
