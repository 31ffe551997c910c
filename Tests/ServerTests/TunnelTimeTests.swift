import EventLoop
import Testing

@testable import Server

@Suite("Tunnel time limits")
struct TunnelTimeTests {
    private let start = Instant(nanoseconds: 1_000)
    private func time(certificate: TimeSpan? = nil) -> TunnelTime {
        TunnelTime(idle: .seconds(10), life: .seconds(100), certificateEnd: certificate.map { start + $0 }, now: start)
    }

    @Test("an idle tunnel ends after the idle time")
    func idle() {
        let time = time()
        #expect(time.end == start + .seconds(10))
        #expect(time.verdict(at: start + .seconds(9)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(10)) == .expired(.idle))
    }

    @Test("traffic extends the idle time, but not the maximum life")
    func life() {
        var time = time()
        for second in 1...99 { time.moved(now: start + .seconds(Int64(second))) }
        #expect(time.end == start + .seconds(100))
        #expect(time.verdict(at: start + .seconds(99)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(100)) == .expired(.life))
    }

    @Test("no tunnel outlives its client's certificate, whatever the traffic")
    func certificate() {
        var time = time(certificate: .seconds(5))
        time.moved(now: start + .seconds(4))
        #expect(time.end == start + .seconds(5))
        #expect(time.verdict(at: start + .seconds(5)) == .expired(.certificate))
    }

    @Test("after one side ends, the other has a fixed time")
    func closing() {
        var time = time()
        time.closes(within: .seconds(2), now: start + .seconds(1))
        time.moved(now: start + .seconds(2))
        time.closes(within: .seconds(2), now: start + .seconds(2))
        #expect(time.end == start + .seconds(3))
        #expect(time.verdict(at: start + .seconds(2)) == .goesOn)
        #expect(time.verdict(at: start + .seconds(3)) == .closed)
    }

    @Test("a certificate that expires while a tunnel closes is reported")
    func certificateWhileClosing() {
        var time = time(certificate: .seconds(2))
        time.closes(within: .seconds(2), now: start + .seconds(1))
        #expect(time.verdict(at: start + .seconds(2)) == .expired(.certificate))
    }
}
