import EventLoop
import Testing

@testable import Server

@Suite("Client time limits during a request")
struct ClientTimeTests {
    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private static func fresh() -> ClientTime {
        var time = ClientTime(idle: .seconds(30), rate: 500)
        time.reset(now: at(0))
        return time
    }

    @Test("there is no limit while something else is waited for")
    func nobody() {
        var time = Self.fresh()
        #expect(time.end == nil)
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        #expect(time.end == Self.at(30_000))
        time.contentHeld(now: Self.at(10_000))
        #expect(time.end == nil)
        time.contentWanted(now: Self.at(60_000))
        #expect(time.end == Self.at(80_000))
        #expect(time.debt == .content)
        time.contentEnded()
        #expect(time.end == nil)
    }

    @Test("a request with longer pauses has no rate, and the next one has the usual rate")
    func pauses() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        time.allowPauses(of: .seconds(600), now: Self.at(0))
        #expect(time.end == Self.at(600_000))
        for minute in 1...20 { time.contentCame(1, now: Self.at(Int64(minute) * 300_000)) }
        #expect(time.end == Self.at(20 * 300_000 + 600_000))
        time.reset(now: Self.at(7_000_000))
        time.contentBegins(now: Self.at(7_000_000), isHeldBack: false)
        time.contentCame(1, now: Self.at(7_010_000))
        #expect(time.end == Self.at(7_030_002))
    }

    @Test("the limit for deferred content starts when it is requested or arrives")
    func heldBack() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: true)
        #expect(time.end == nil)
        time.contentWanted(now: Self.at(60_000))
        #expect(time.end == Self.at(90_000))
        time.reset(now: Self.at(70_000))
        time.contentBegins(now: Self.at(70_000), isHeldBack: true)
        time.contentCame(1, now: Self.at(130_000))
        #expect(time.end == Self.at(160_000))
    }

    @Test("the limit for taking a response does not end with the content")
    func contentEndsWhileBlocked() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        time.responseBlocked(taken: 0, now: Self.at(1_000))
        time.contentEnded()
        #expect(time.end == Self.at(31_000))
        #expect(time.debt == .response)
    }

    @Test("the limit for taking a response continues when the service takes no more content")
    func contentHeldWhileBlocked() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        time.responseBlocked(taken: 0, now: Self.at(1_000))
        time.contentHeld(now: Self.at(2_000))
        #expect(time.end == Self.at(31_000))
        #expect(time.debt == .response)
    }

    @Test("incoming content does not extend the limit for taking a response")
    func contentGivesNoTimeToRead() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        time.responseBlocked(taken: 0, now: Self.at(0))
        for second in 1...29 as ClosedRange<Int64> { time.contentCame(100_000, now: Self.at(second * 1_000)) }
        #expect(time.end == Self.at(30_000))
        #expect(time.debt == .response)
    }

    @Test("taking a byte now and then does not extend the limit for taking a response")
    func trickle() {
        var time = Self.fresh()
        time.responseBlocked(taken: 0, now: Self.at(0))
        for second in 1...29 as ClosedRange<Int64> { time.responseBlocked(taken: 1, now: Self.at(second * 1_000)) }
        #expect(time.end == Self.at(30_058))
    }

    @Test("the limit for taking a response counts only blocked time and is not renewed")
    func blockedNowAndThen() {
        var time = Self.fresh()
        time.responseBlocked(taken: 0, now: Self.at(0))
        let wasWaitedFor = time.responseTaken(0, now: Self.at(20_000))
        #expect(wasWaitedFor)
        #expect(time.end == nil)
        let isWaitedFor = time.responseTaken(5_000, now: Self.at(50_000))
        #expect(!isWaitedFor)
        time.responseBlocked(taken: 0, now: Self.at(60_000))
        #expect(time.end == Self.at(70_000))
        time.reset(now: Self.at(65_000))
        time.responseBlocked(taken: 0, now: Self.at(66_000))
        #expect(time.end == Self.at(96_000))
    }

    @Test("the limit for content continues after the response was taken")
    func contentAfterBlocked() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        time.responseBlocked(taken: 0, now: Self.at(1_000))
        let wasWaitedFor = time.responseTaken(10, now: Self.at(2_000))
        #expect(wasWaitedFor)
        #expect(time.end == Self.at(30_000))
    }

    @Test("the limit for the rest of a refused request is a total")
    func rest() {
        var time = Self.fresh()
        time.contentBegins(now: Self.at(0), isHeldBack: false)
        let isFirst = time.limitRest(to: Self.at(2_000))
        #expect(isFirst)
        time.contentCame(1, now: Self.at(1_000))
        let isLater = !time.limitRest(to: Self.at(3_000))
        #expect(isLater)
        #expect(time.end == Self.at(2_000))
        #expect(time.debt == .content)
        time.reset(now: Self.at(1_500))
        #expect(time.end == nil)
    }
}

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
