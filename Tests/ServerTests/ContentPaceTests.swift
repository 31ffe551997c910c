import EventLoop
import Testing

@testable import Server

@Suite("Content pace")
struct ContentPaceTests {
    private let idle = TimeSpan.seconds(30)

    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test("without content the limit is the longest pause")
    func pause() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(1_000))
        #expect(pace.end == Self.at(31_000))
    }

    @Test("one byte a second exceeds the limit although there is no pause")
    func trickle() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(0))
        var second: Int64 = 0
        while Self.at(second * 1_000) < pace.end {
            pace.moved(1, idle, rate: 500, now: Self.at(second * 1_000))
            second += 1
        }
        #expect(second == 31)
    }

    @Test("a client at the configured rate never exceeds the limit")
    func steady() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(0))
        for second in 1...100_000 as ClosedRange<Int64> {
            #expect(Self.at(second * 1_000) < pace.end)
            pace.moved(500, idle, rate: 500, now: Self.at(second * 1_000))
        }
    }

    @Test("the limit is never longer than one pause, however much came before")
    func hoarding() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(0))
        pace.moved(1 << 30, idle, rate: 500, now: Self.at(1_000))
        #expect(pace.end == Self.at(31_000))
    }

    @Test("the limit stops while something else is waited for, and is not renewed")
    func held() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(0))
        pace.pause(now: Self.at(20_000))
        pace.resume(now: Self.at(500_000))
        #expect(pace.end == Self.at(510_000))
    }

    @Test("without a rate each byte allows another pause")
    func rateless() {
        var pace = ContentPace()
        pace.begin(idle, now: Self.at(0))
        pace.moved(1, idle, rate: 0, now: Self.at(29_000))
        #expect(pace.end == Self.at(59_000))
    }
}
