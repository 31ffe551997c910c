import Chance
import EventLoop
import Testing

@testable import Enrolment

@Suite("The schedule of receipt requests")
struct RefreshScheduleTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    private func instant(_ milliseconds: Int64) -> Instant { Self.start + .milliseconds(milliseconds) }

    private func schedule(
        concurrency: Int = 2, callsPerMinute: Int = 60, interval: Int64 = 1_000, retry: Int64 = 10, seed: UInt64 = 7
    ) -> RefreshSchedule {
        RefreshSchedule(
            RefreshSchedule.Rules(
                concurrency: concurrency, callsPerMinute: callsPerMinute, interval: interval, retry: retry),
            generator: SeededGenerator(seed: seed))
    }

    // Expectations do not accept calls that change a value.
    private func begin(_ schedule: inout RefreshSchedule, _ milliseconds: Int64) -> Bool {
        schedule.begin(at: instant(milliseconds))
    }

    private func end(_ schedule: inout RefreshSchedule, _ answer: RefreshAnswer, _ milliseconds: Int64) -> Bool {
        schedule.ended(answer, at: instant(milliseconds))
    }

    @Test("calls start evenly, never more per minute than configured")
    func pace() {
        var schedule = schedule(concurrency: 64)
        var begun = 0
        for millisecond in Int64(0)..<60_000 {
            if begin(&schedule, millisecond) {
                begun += 1
                #expect(schedule.wait(at: instant(millisecond)) == .seconds(1))
                _ = schedule.ended(.unchanged, at: instant(millisecond))
            }
        }
        #expect(begun == 60)
    }

    @Test("calls run up to the configured number, and a freed place is used")
    func concurrency() {
        var schedule = schedule(callsPerMinute: 60_000)
        #expect(begin(&schedule, 0) && begin(&schedule, 1))
        #expect(!begin(&schedule, 5) && schedule.isFull)
        _ = schedule.ended(.unchanged, at: instant(6))
        #expect(begin(&schedule, 6))
        #expect(!begin(&schedule, 9))
    }

    @Test("429 pauses all calls as long as it says, between the retry interval and a day")
    func throttled() {
        for (said, seconds) in [(40, 40), (1, 10), (1_000_000, 86_400), (nil, 900)] as [(Int64?, Int64)] {
            var schedule = schedule()
            #expect(begin(&schedule, 0))
            #expect(end(&schedule, .tooMany(retryAfter: said), 0))
            #expect(schedule.pause?.reason == .throttled)
            #expect(!begin(&schedule, seconds * 1_000 - 1))
            #expect(begin(&schedule, seconds * 1_000))
        }
    }

    @Test("a pause begins once, and a later one does not shorten it")
    func onePause() {
        var schedule = schedule()
        #expect(begin(&schedule, 0) && begin(&schedule, 1_000))
        #expect(end(&schedule, .tooMany(retryAfter: 500), 1_000))
        #expect(!end(&schedule, .tooMany(retryAfter: 20), 1_500))
        #expect(schedule.isPaused(at: instant(500_000)))
    }

    @Test("a refused token pauses all calls for an hour")
    func tokenRefused() {
        var schedule = schedule()
        #expect(begin(&schedule, 0))
        #expect(end(&schedule, .tokenRefused, 0))
        #expect(schedule.isPaused(at: instant(3_599_999)) && !schedule.isPaused(at: instant(3_600_000)))
    }

    @Test("one failed call delays its device; consecutive ones pause all calls, doubling until a success")
    func failing() {
        var schedule = schedule()
        var time: Int64 = 0
        func fail() -> Bool {
            #expect(begin(&schedule, time))
            return end(&schedule, .failed("timeout"), time)
        }
        for expected in [0, 0, 10, 20, 40] as [Int64] {
            #expect(fail() == (expected > 0))
            if expected > 0 {
                #expect(schedule.wait(at: instant(time)) == .seconds(expected))
            }
            time += max(expected, 1) * 1_000
        }
        #expect(begin(&schedule, time))
        #expect(!end(&schedule, .unchanged, time))
        time += 1_000
        #expect(!fail())
    }

    @Test("a reload keeps a pause, unless the new settings may have removed its cause")
    func resumed() {
        var schedule = schedule()
        schedule.resume((.throttled, instant(5_000)))
        #expect(!begin(&schedule, 4_999) && begin(&schedule, 5_000))
        var other = self.schedule()
        other.resume((.tokenRefused, instant(5_000)))
        #expect(begin(&other, 0))
    }

    private func next(
        _ outcome: RefreshSchedule.DeviceOutcome, notBefore: Int64? = nil, failures: Int = 0, seed: UInt64
    ) -> Int64? {
        var schedule = schedule(seed: seed)
        return schedule.next(after: outcome, notBefore: notBefore, failures: failures, now: 50_000, at: instant(0))
    }

    @Test("a receipt is due after field 19 and the interval, spread over a tenth of it")
    func notBefore() throws {
        var seen: Set<Int64> = []
        for seed in UInt64(0)..<200 {
            for outcome in [RefreshSchedule.DeviceOutcome.refreshed, .unchanged] {
                let early = try #require(next(outcome, notBefore: 60_000, seed: seed))
                #expect((60_000...60_100).contains(early))
                seen.insert(early)
                let late = try #require(next(outcome, notBefore: 50_001, seed: seed))
                #expect((51_000...51_100).contains(late))
                #expect(try (51_000...51_100).contains(#require(next(outcome, seed: seed))))
            }
            #expect(try (70_000...70_100).contains(#require(next(.waiting, notBefore: 70_000, seed: seed))))
        }
        #expect(seen.count > 20)
    }

    @Test("the wait after repeated failures doubles up to a limit, half of it random")
    func backOff() throws {
        for seed in UInt64(0)..<50 {
            for (failures, span) in [(1, 10), (2, 20), (3, 40), (20, 86_400), (Int.max, 86_400)] as [(Int, Int64)] {
                let wait = try #require(next(.failed, failures: failures, seed: seed)) - 50_000
                #expect((span / 2...span).contains(wait))
            }
            let wait = try #require(next(.refused, failures: 30, seed: seed)) - 50_000
            #expect((15 * 86_400...30 * 86_400).contains(wait))
        }
    }

    @Test("a device unknown to Apple waits 30 days, and an expired receipt is never sent")
    func rarely() throws {
        #expect(try #require(next(.unknown, seed: 1)) >= 50_000 + 30 * 86_400)
        #expect(next(.expired, seed: 1) == nil)
    }

    @Test("a device that meets a pause is due when the pause ends")
    func paused() throws {
        var schedule = schedule()
        #expect(begin(&schedule, 0))
        _ = schedule.ended(.tooMany(retryAfter: 100), at: instant(0))
        let next = schedule.next(after: .paused, notBefore: nil, failures: 0, now: 50_000, at: instant(0))
        #expect(try (50_101...50_111).contains(#require(next)))
    }
}
