import Chance
import RegistryMemory
import Testing

@testable import Registry

@Suite("Counter windows")
struct CounterWindowTests {
    /// A record after these values, each of which it accepts.
    private func record(_ values: UInt32..., mode: CounterMode = .unspent) -> CounterWindow {
        var record = CounterWindow()
        for value in values { #expect(record.accept(value, mode: mode) == .accepted, "\(value)") }
        return record
    }

    @Test("a new device has used 0 and may start with any other value")
    func registration() {
        for mode in [.strict, window(1), window(1024)] {
            var record = CounterWindow()
            #expect(record.highest == 0)
            #expect(record.accept(0, mode: mode) == .replayed)
            for first: UInt32 in [1, 2, 1024, 1025, .max] {
                var record = CounterWindow()
                #expect(record.accept(first, mode: mode) == .accepted)
                #expect(record.accept(0, mode: mode) != .accepted)
            }
        }
    }

    @Test("strict accepts only values above the highest")
    func strict() {
        var record = record(10)
        #expect(record.accept(9, mode: .strict) == .late)
        #expect(record.accept(10, mode: .strict) == .replayed)
        #expect(record.accept(11, mode: .strict) == .accepted)
        #expect(record.accept(13, mode: .strict) == .accepted)
        #expect(record.accept(12, mode: .strict) == .late)
        #expect(record.accept(11, mode: .strict) == .replayed)
    }

    @Test(
        "a window of N accepts each value up to N below the highest once, and none below",
        arguments: [1, 2, 63, 64, 65, 1023, 1024])
    func reach(_ length: Int) {
        let highest: UInt32 = 1_000_000
        for behind in 1...1024 {
            var record = record(highest)
            // Its neighbours in the ring are others' business.
            let value = highest - UInt32(behind)
            let first = record.accept(value, mode: window(length))
            #expect(first == (behind <= length ? .accepted : .late), "\(behind) behind")
            #expect(record.accept(value, mode: window(length)) == (behind <= length ? .replayed : .late))
            #expect(record.highest == highest)
        }
        var record = record(highest)
        #expect(record.accept(highest - 1025, mode: window(length)) == .late)
        #expect(record.accept(0, mode: window(length)) == .late)
    }

    @Test("all 1024 values below the highest can be used once in any order")
    func whole() {
        var generator = SeededGenerator(seed: RunSeed.tell())
        var record = record(5_000)
        for value in (UInt32(3_976)..<5_000).shuffled(using: &generator) {
            #expect(record.accept(value, mode: window(1024)) == .accepted)
        }
        for value in UInt32(3_976)...5_000 { #expect(record.accept(value, mode: window(1024)) == .replayed) }
        #expect(record.accept(3_975, mode: window(1024)) == .late)
    }

    @Test(
        "a jump keeps values within reach as used, and makes the skipped ones usable",
        arguments: [1, 2, 63, 64, 1023, 1024])
    func jump(_ distance: UInt32) {
        var record = record(2_000, 2_001, 2_003)
        #expect(record.accept(2_003 + distance, mode: .strict) == .accepted)
        for value in UInt32(2_004)..<(2_003 + distance) {
            #expect(record.accept(value, mode: window(1024)) == .accepted, "\(value)")
        }
        #expect(record.accept(2_003, mode: window(1024)) == .replayed)
        let isKept = 2_003 + distance - 2_001 <= 1024
        #expect(record.accept(2_001, mode: window(1024)) == (isKept ? .replayed : .late))
    }

    @Test("a jump beyond the window makes all earlier values unusable")
    func longJump() {
        for distance: UInt32 in [1025, 1026, 2048, 4096, 1_000_000] {
            var record = record(7)
            #expect(record.accept(7 + distance, mode: .strict) == .accepted)
            for value: UInt32 in [0, 1, 6, 7] { #expect(record.accept(value, mode: window(1024)) == .late) }
            #expect(record.accept(7 + distance - 1024, mode: window(1024)) == .accepted)
            #expect(record.accept(7 + distance - 1025, mode: window(1024)) == .late)
        }
    }

    @Test("the largest value is the last one and does not wrap")
    func largest() {
        var record = record(.max)
        for value: UInt32 in [0, 1, 1024, .max / 2] { #expect(record.accept(value, mode: window(1024)) == .late) }
        #expect(record.accept(.max, mode: window(1024)) == .replayed)
        #expect(record.accept(.max - 1024, mode: window(1024)) == .accepted)
        #expect(record.accept(.max - 1025, mode: window(1024)) == .late)
        #expect(record.highest == .max)
        #expect(record.accept(1, mode: .strict) == .late)
    }

    @Test("a wider mode accepts only unused values, even those a narrower mode refused")
    func widening() {
        var record = CounterWindow()
        for value: UInt32 in [100, 90, 95, 110] { _ = record.accept(value, mode: .strict) }
        #expect(record.accept(95, mode: window(10)) == .late)
        #expect(record.accept(101, mode: window(9)) == .accepted)
        #expect(record.accept(100, mode: window(64)) == .replayed)
        #expect(record.accept(101, mode: window(64)) == .replayed)
        // Refused as late before, so never used.
        #expect(record.accept(90, mode: window(64)) == .accepted)
        #expect(record.accept(90, mode: window(1024)) == .replayed)
        #expect(record.accept(90, mode: .strict) == .replayed)
    }

    @Test("only window lengths that the record can hold are valid")
    func modes() {
        for length in [Int.min, -1, 0, 1025, .max] { #expect(CounterMode(window: length) == nil) }
        for length in [1, 1024] { #expect(CounterMode(window: length) != nil) }
    }

    @Test("128 bytes and the highest value restore the record, and no other size does")
    func stored() throws {
        let record = record(40, 38, 1_000, 70, 999)
        #expect(record.bits.count == 128)
        #expect(CounterWindow(highest: record.highest, bits: record.bits) == record)
        for size in [0, 127, 129] {
            #expect(CounterWindow(highest: 1, bits: [UInt8](repeating: 0, count: size)) == nil)
        }
        // The documented place of a value's bit.
        var other = self.record(2_000)
        #expect(other.bits.allSatisfy { $0 == 0 })
        #expect(other.accept(1_501, mode: .unspent) == .accepted)
        let place = 1_501 % 1_024
        #expect(other.bits[place / 8] == 1 << (place % 8))
    }

    @Test("merging keeps every value used in either record, in both directions")
    func merging() {
        for gap: UInt32 in [0, 1, 10, 64, 1000, 1023, 1024, 1025, 5000] {
            let left = record(3_000, 2_990, 2_500)
            let right = record(3_000 + gap, 2_999 + gap, 2_000 + gap)
            var merged = left
            merged.merge(right)
            var other = right
            other.merge(left)
            #expect(merged == other)
            #expect(merged.highest == 3_000 + gap)
            for value in UInt32(1_900)...(3_000 + gap) {
                var (one, two, both) = (left, right, merged)
                let verdicts = [one.accept(value, mode: .unspent), two.accept(value, mode: .unspent)]
                let isSpent = verdicts.contains(.replayed)
                let isKnown = 3_000 + gap - value <= 1024
                #expect(
                    both.accept(value, mode: .unspent) == (isKnown ? (isSpent ? .replayed : .accepted) : .late),
                    "gap \(gap), \(value)")
            }
        }
    }

    @Test("random sequences give the results of a record that forgets nothing")
    func model() {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        let modes = [CounterMode.strict, window(1), window(32), window(1000), window(1024)]
        for _ in 0..<200 {
            var record = CounterWindow()
            var used: Set<UInt32> = [0]
            var highest: UInt32 = 0
            let spread: UInt32 = [3, 100, 3_000][Int.random(in: 0..<3, using: &generator)]
            for _ in 0..<500 {
                let low = highest > spread ? highest - spread : 0
                let value = UInt32.random(in: low...(highest + spread), using: &generator)
                let mode = modes[Int.random(in: 0..<modes.count, using: &generator)]
                let behind = Int64(highest) - Int64(value)
                let expected: CounterVerdict =
                    switch behind {
                    case ..<0: .accepted
                    case 1025...: .late
                    case _ where used.contains(value): .replayed
                    case ...mode.reach: .accepted
                    default: .late
                    }
                #expect(record.accept(value, mode: mode) == expected, "seed \(seed)")
                if expected == .accepted { used.insert(value) }
                highest = max(highest, expected == .accepted ? value : 0)
                if Int.random(in: 0..<50, using: &generator) == 0 {
                    record = CounterWindow(highest: record.highest, bits: record.bits) ?? CounterWindow()
                }
            }
            #expect(record.highest == highest)
        }
    }
}
