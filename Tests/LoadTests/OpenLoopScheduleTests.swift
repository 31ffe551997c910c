import EventLoop
import LoadGeneration
import Testing

@Suite("The schedule of a constant-rate load")
struct OpenLoopScheduleTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func after(_ nanoseconds: Int64) -> Instant { start + TimeSpan(nanoseconds: nanoseconds) }

    @Test("requests are due at equal intervals from the start")
    func spacing() {
        let schedule = OpenLoopSchedule(start: start, rate: 1000, callers: 4)
        #expect(schedule.dueTime(of: 0) == start)
        #expect(schedule.dueTime(of: 1) == after(1_000_000))
        #expect(schedule.dueTime(of: 2500) == after(2_500_000_000))
    }

    @Test("a rate that does not divide a second does not drift within an hour")
    func noDrift() {
        let schedule = OpenLoopSchedule(start: start, rate: 7777, callers: 1)
        let hour = schedule.dueTime(of: 7777 * 3600) - start
        #expect(abs(hour.nanoseconds - 3_600_000_000_000) <= 1000)
    }

    @Test(
        "the count due at a request's due time includes it and none after it",
        arguments: [0.3, 3.0, 999.9, 7777.0, 123_456.7])
    func countAgrees(rate: Double) {
        let schedule = OpenLoopSchedule(start: start, rate: rate, callers: 3)
        for request in stride(from: 0, to: 100_000, by: 37) {
            let due = schedule.dueTime(of: request)
            #expect(schedule.count(dueBy: due) == request + 1)
            #expect(schedule.count(dueBy: Instant(nanoseconds: due.nanoseconds - 1)) == request)
        }
    }

    @Test("nothing is due before the start")
    func beforeStart() {
        let schedule = OpenLoopSchedule(start: start, rate: 1000, callers: 4)
        #expect(schedule.count(dueBy: after(-1)) == 0)
        #expect(schedule.count(dueBy: start) == 1)
    }

    @Test("requests are assigned to the callers in turn")
    func callers() {
        let schedule = OpenLoopSchedule(start: start, rate: 1000, callers: 3)
        #expect((0..<7).map { schedule.caller(of: $0) } == [0, 1, 2, 0, 1, 2, 0])
    }
}
