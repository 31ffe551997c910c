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
            next = LoopTimer(loop: loop, interval: .milliseconds(1)) {
                done.append("next event")
                loop.stop()
            }
            loop.whenTurnEnds { done.append("first") }
            loop.whenTurnEnds { done.append("second") }
            done.append("event")
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(next != nil)
        #expect(done == ["event", "first", "second", "next event"])
    }

    @Test("what the end of a turn leaves for the next one waits for no event", .timeLimit(.minutes(1)))
    func leftOver() throws {
        let loop = try Loop()
        var done: [String] = []
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            loop.whenTurnEnds {
                loop.whenTurnEnds {
                    done.append("second turn")
                    loop.whenTurnEnds {
                        done.append("third turn")
                        loop.stop()
                    }
                }
                done.append("first turn")
            }
        }
        // Nothing else is registered: whoever waited here would wait for ever.
        withExtendedLifetime(timer) { loop.run() }
        #expect(done == ["first turn", "second turn", "third turn"])
    }

    @Test("who always leaves something for the next turn keeps no event from being served", .timeLimit(.minutes(1)))
    func noStarvation() throws {
        let loop = try Loop()
        var turns = 0
        var isOver = false
        func again() {
            turns += 1
            if !isOver { loop.whenTurnEnds { again() } }
        }
        var last: LoopTimer?
        let first = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            last = LoopTimer(loop: loop, interval: .milliseconds(1)) {
                isOver = true
                loop.stop()
            }
            again()
        }
        withExtendedLifetime(first) { loop.run() }
        #expect(last != nil && turns > 1)
    }

    @Test("what is left in the turn that stops the loop is done before `run` returns")
    func lastTurn() throws {
        let loop = try Loop()
        var done: [String] = []
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            loop.whenTurnEnds {
                loop.whenTurnEnds { done.append("left over") }
                loop.stop()
                loop.whenTurnEnds { done.append("at once") }
            }
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(done == ["at once", "left over"])
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
