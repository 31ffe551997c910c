import EventLoop
import Testing

@testable import Server

@Suite("The end of an HTTP/2 connection")
struct ConnectionLifeTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    /// How often the last GOAWAY would go out now.
    private func finalNotices(_ life: inout ConnectionLife) -> Int {
        (0..<3).reduce(0) { sum, _ in sum + (life.takeFinalNotice() ? 1 : 0) }
    }

    @Test("an announced end still serves requests already on their way")
    func twoSteps() {
        var life = ConnectionLife()
        #expect(life.takesRequests && life.noticeEnd == nil)
        let isAnnounced = life.announce(now: start)
        #expect(isAnnounced)
        #expect(life.takesRequests && life.noticeEnd == start + ConnectionLife.notice)
        life.timePassed(now: start)
        #expect(life.phase == .announced(until: start + ConnectionLife.notice))
        let early = finalNotices(&life)
        #expect(early == 0)
        life.timePassed(now: start + ConnectionLife.notice)
        #expect(life.phase == .ending(isNoticeDue: true) && !life.takesRequests && life.noticeEnd == nil)
        let final = finalNotices(&life)
        #expect(final == 1)
    }

    @Test("an immediate end accepts no request and is not announced again")
    func atOnce() {
        var life = ConnectionLife()
        life.endNow()
        let isAnnounced = life.announce(now: start)
        #expect(!isAnnounced && !life.takesRequests)
        let first = finalNotices(&life)
        #expect(first == 1)
        life.endNow()
        let second = finalNotices(&life)
        #expect(second == 0)
    }

    @Test("an end is announced once and can be brought forward")
    func announcedOnce() {
        var life = ConnectionLife()
        let announced = [life.announce(now: start), life.announce(now: start)]
        #expect(announced == [true, false])
        life.endNow()
        #expect(life.phase == .ending(isNoticeDue: true) && life.noticeEnd == nil)
        let brought = finalNotices(&life)
        #expect(brought == 1)
    }

    @Test("after lingering no notice is sent")
    func lingering() {
        var life = ConnectionLife()
        life.endNow()
        life.linger()
        #expect(!life.takesRequests)
        life.endNow()
        #expect(life.phase == .lingering(discarded: 0))
        let last = finalNotices(&life)
        #expect(last == 0)
    }
}
