import EventLoop
import Testing

@Suite("Turns of a loop")
struct LoopTests {
    @Test("what is left for the end of a turn is done once, in order, before the loop waits again")
    func turnEnds() throws {
        let loop = try Loop()
        var done: [String] = []
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            loop.whenTurnEnds { done.append("first") }
            loop.whenTurnEnds {
                done.append("second")
                // Left for the next turn, which this timer begins.
                loop.whenTurnEnds { loop.stop() }
            }
            done.append("event")
        }
        let next = LoopTimer(loop: loop, interval: .milliseconds(20)) { done.append("next event") }
        withExtendedLifetime((timer, next)) { loop.run() }
        #expect(done == ["event", "first", "second", "next event"])
    }

    @Test("a loop that was stopped can run again")
    func again() throws {
        let loop = try Loop()
        var count = 0
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1), repeats: true) {
            count += 1
            loop.stop()
        }
        withExtendedLifetime(timer) {
            loop.run()
            loop.run()
        }
        #expect(count == 2)
    }
}
