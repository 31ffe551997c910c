import EventLoop
import Testing

@testable import Server

@Suite("How long a tunnel goes on")
struct TunnelTimeTests {
    private let start = Instant(nanoseconds: 1_000)
    private func time(certificate: TimeSpan? = nil) -> TunnelTime {
        TunnelTime(idle: .seconds(10), life: .seconds(100), certificateEnd: certificate.map { start + $0 }, now: start)
    }

    @Test("a tunnel in which nothing moves is over when it has been idle for long enough")
    func idle() {
        let time = time()
        #expect(time.end == start + .seconds(10))
        #expect(time.verdict(at: start + .seconds(9)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(10)) == .expired(.idle))
    }

    @Test("whatever moves gains time, but no life")
    func life() {
        var time = time()
        for second in 1...99 { time.moved(now: start + .seconds(Int64(second))) }
        #expect(time.end == start + .seconds(100))
        #expect(time.verdict(at: start + .seconds(99)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(100)) == .expired(.life))
    }

    @Test("no tunnel outlives its client's certificate, whatever moves")
    func certificate() {
        var time = time(certificate: .seconds(5))
        time.moved(now: start + .seconds(4))
        #expect(time.end == start + .seconds(5))
        #expect(time.verdict(at: start + .seconds(5)) == .expired(.certificate))
    }

    @Test("when one side has ended the other has a moment, to which nothing adds")
    func closing() {
        var time = time()
        time.closes(within: .seconds(2), now: start + .seconds(1))
        time.moved(now: start + .seconds(2))
        time.closes(within: .seconds(2), now: start + .seconds(2))
        #expect(time.end == start + .seconds(3))
        #expect(time.verdict(at: start + .seconds(2)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(3)) == .closed)
    }

    @Test("a certificate that ends while a tunnel closes is still said")
    func certificateWhileClosing() {
        var time = time(certificate: .seconds(2))
        time.closes(within: .seconds(2), now: start + .seconds(1))
        #expect(time.verdict(at: start + .seconds(2)) == .expired(.certificate))
    }
}
