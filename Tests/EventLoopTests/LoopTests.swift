import EventLoop
import Testing

@Suite("Turns of a loop")
struct LoopTests {
    @Test("what is left for the end of a turn is done once, in order, before the loop waits again")
    func turnEnds() throws {
        let loop = try Loop()
        var done: [String] = []
        var next: LoopTimer?
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            // Made here, for two timers may be due in the same turn.
            next = LoopTimer(loop: loop, interval: .milliseconds(1)) { done.append("next event") }
            loop.whenTurnEnds { done.append("first") }
            loop.whenTurnEnds {
                done.append("second")
                // Left for the next turn, which the other timer begins.
                loop.whenTurnEnds { loop.stop() }
            }
            done.append("event")
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(next != nil)
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
