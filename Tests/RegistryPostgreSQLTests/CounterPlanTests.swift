import Chance
import EventLoop
import RegistryMemory
import Testing
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL

@Suite("The plan of database statements")
struct CounterPlanTests {
    private let epoch = RandomID()

    private func device(_ number: Int64) -> DeviceID {
        guard let device = DeviceID(number) else { fatalError("at least 1") }
        return device
    }

    private func pending(
        _ device: Int64, _ counter: UInt32, key: Int? = nil, showing shown: ShownExtensions = [],
        mode: CounterMode = .strict, epoch: RandomID? = nil
    ) -> PendingCounter {
        PendingCounter(
            entry: CounterEntry(
                device: self.device(device), binding: Fixture.bindingKey(key ?? Int(device)), counter: counter,
                epoch: epoch ?? self.epoch, shown: shown, mode: mode), since: .now
        ) { _ in }
    }

    private func known(
        _ keys: [Int], highest: UInt32 = 0, shown: ShownExtensions = []
    ) -> KnownCounter {
        var window = CounterWindow()
        if highest > 0 { _ = window.accept(highest, mode: .strict) }
        return KnownCounter(window: window, shown: shown, standing: 7, active: keys.map(Fixture.bindingKey))
    }

    private func plan(
        _ waiting: [PendingCounter], busy: Set<DeviceID> = [], limit: Int = 100, known: [Int64: KnownCounter]
    ) -> CounterPlan {
        CounterPlan(waiting, epoch: epoch, busy: busy, limit: limit) { known[$0.number] }
    }

    private func counters(_ pending: [PendingCounter]) -> [UInt32] { pending.map(\.entry.counter) }

    @Test("the values of a device make one row, and rows are ordered by device")
    func oneRow() {
        let plan = plan(
            [pending(9, 5), pending(2, 1), pending(9, 7), pending(9, 6, mode: window(8)), pending(2, 2)],
            known: [9: known([9], highest: 4), 2: known([2])])
        #expect(plan.rows.map(\.device.number) == [2, 9])
        #expect(plan.rows.map { counters($0.pending) } == [[1, 2], [5, 7, 6]])
        #expect(plan.rows[1].before.window.highest == 4)
        #expect(plan.rows[1].after.window.highest == 7)
        var again = plan.rows[1].after.window
        for value: UInt32 in [4, 5, 6, 7] { #expect(again.accept(value, mode: window(1024)) == .replayed) }
        #expect(plan.readings.isEmpty && plan.left.isEmpty && plan.decided.isEmpty)
    }

    @Test("values that can never be accepted need no statement")
    func decided() {
        let plan = plan(
            [
                pending(1, 4), pending(1, 2), pending(1, 5), pending(1, 5), pending(1, 6, showing: []),
                pending(1, 9, epoch: RandomID()),
            ], known: [1: known([1], highest: 4)])
        #expect(plan.decided.map(\.outcome) == [.replayed, .late(highest: 4), .replayed, .epochChanged])
        #expect(plan.rows.map { counters($0.pending) } == [[5, 6]])
        let withheld = self.plan(
            [pending(1, 5)], known: [1: known([1], highest: 4, shown: .validationCategory)])
        #expect(withheld.decided.map(\.outcome) == [.extensionWithheld])
        // Nothing is written for a device of which nothing is left.
        #expect(withheld.rows.isEmpty)
    }

    @Test("a busy device waits, and so do later values of a waiting device")
    func order() {
        let all = [pending(1, 5), pending(2, 1), pending(1, 6)]
        let plan = plan(all, busy: [device(1)], known: [1: known([1]), 2: known([2])])
        #expect(counters(plan.left) == [5, 6])
        #expect(plan.rows.map(\.device.number) == [2])
        // A second binding of a device is not known to be active: it is read, after the row that its first one has.
        let two = self.plan(
            [pending(1, 5), pending(1, 6, key: 77), pending(1, 7)], known: [1: known([1])])
        #expect(two.rows.map { counters($0.pending) } == [[5]])
        #expect(counters(two.left) == [6, 7])
        #expect(two.readings.isEmpty)
    }

    @Test("unknown devices are read, each once with one binding")
    func readings() {
        let plan = plan(
            [pending(1, 5), pending(1, 6), pending(1, 7, key: 77), pending(1, 8), pending(2, 1, key: 3)],
            known: [2: known([2])])
        #expect(plan.rows.isEmpty)
        #expect(plan.readings.map(\.device.number) == [1, 2])
        #expect(plan.readings.map(\.key) == [Fixture.bindingKey(1), Fixture.bindingKey(3)])
        #expect(plan.readings.map { counters($0.pending) } == [[5, 6], [1]])
        #expect(counters(plan.left) == [7, 8])
    }

    @Test("a statement has at most the allowed number of devices")
    func limit() {
        let waiting = (1...10).map { pending($0, 1) } + (11...20).map { pending($0, 1) }
        let plan = plan(
            waiting, limit: 3, known: Dictionary(uniqueKeysWithValues: (1...10).map { ($0, known([Int($0)])) }))
        #expect(plan.rows.count == 3)
        #expect(plan.readings.count == 3)
        #expect(plan.left.count == 14)
    }

    @Test("every value comes out once, and those of one device in order")
    func complete() {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            // The counter tells them apart.
            let waiting = (1...Int.random(in: 1...40, using: &generator)).map { number in
                pending(
                    Int64.random(in: 1...6, using: &generator), UInt32(number),
                    key: Int.random(in: 1...3, using: &generator), mode: window(1024))
            }
            let busy = Set((1...6).filter { _ in Int.random(in: 0..<4, using: &generator) == 0 }.map(device))
            let known = Dictionary(
                uniqueKeysWithValues: (1...6).filter { _ in Bool.random(using: &generator) }.map {
                    (Int64($0), self.known([Int.random(in: 1...3, using: &generator)]))
                })
            let plan = plan(
                waiting, busy: busy, limit: Int.random(in: 1...6, using: &generator), known: known)
            let sent = plan.rows.flatMap(\.pending) + plan.readings.flatMap(\.pending)
            #expect(
                (sent + plan.left + plan.decided.map(\.pending)).map(\.entry.counter).sorted()
                    == waiting.map(\.entry.counter), "seed \(seed)")
            #expect(sent.allSatisfy { !busy.contains($0.entry.device) }, "seed \(seed)")
            for device in (1...6).map(device) {
                let inOrder = (sent + plan.left).filter { $0.entry.device == device }.map(\.entry.counter)
                #expect(inOrder == inOrder.sorted(), "seed \(seed)")
                // One statement at a time has any of them.
                let rows = plan.rows.count { $0.device == device } + plan.readings.count { $0.device == device }
                #expect(rows <= 1, "seed \(seed)")
            }
        }
    }
}
