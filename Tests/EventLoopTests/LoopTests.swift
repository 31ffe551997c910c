import EventLoop
import Testing

@Suite("The event loop")
struct LoopTests {
    @Test("work deferred to the end of a turn runs once, in order, before the next wait")
    func turnEnds() throws {
        let loop = try Loop()
        var done: [String] = []
        var next: LoopTimer?
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            // Created here, since two timers may be due in the same turn.
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

    @Test("work that the end of a turn defers runs without waiting for an event", .timeLimit(.minutes(1)))
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
        // Nothing else is registered: a loop that waited here would wait for ever.
        withExtendedLifetime(timer) { loop.run() }
        #expect(done == ["first turn", "second turn", "third turn"])
    }

    @Test("work that always defers more does not starve events", .timeLimit(.minutes(1)))
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

    @Test("work deferred in the stopping turn runs before `run` returns")
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

    @Test(
        "long work runs one piece per turn, and events are served between pieces", .timeLimit(.minutes(1)))
    func pieces() throws {
        let loop = try Loop(time: { Instant(nanoseconds: 0) })
        let mailbox = try Mailbox<Int>(limit: 10)
        var done: [String] = []
        var rest = 3
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { number in
            done.append("event \(number)")
            guard number == 0 else { return }
            loop.work {
                rest -= 1
                done.append("piece")
                loop.whenTurnEnds { done.append(loop.isWorkLeft ? "end, more left" : "end") }
                // Arrives while there is work left, and is served before the next piece.
                mailbox.post(3 - rest)
                return rest > 0
            }
        }
        mailbox.post(0)
        let last = LoopTimer(loop: loop, interval: .milliseconds(1), repeats: true) {
            if done.last == "event 3" { loop.stop() }
        }
        withExtendedLifetime((receiver, last)) { loop.run() }
        #expect(
            done == [
                "event 0", "piece", "end, more left", "event 1", "piece", "end, more left", "event 2", "piece", "end",
                "event 3",
            ])
        #expect(!loop.isWorkLeft)
    }

    @Test("long work gets as much time as the events before it, and at least one piece")
    func shareOfWork() throws {
        var passed: Int64 = 0
        let loop = try Loop(time: { Instant(nanoseconds: passed * 1_000_000) })
        let mailbox = try Mailbox<Int64>(limit: 10)
        var done: [String] = []
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { milliseconds in
            passed += milliseconds
            done.append("events of \(milliseconds) ms")
            if milliseconds == 10 {
                loop.work {
                    passed += 2
                    done.append("piece")
                    // One after the other, so that each turn has one.
                    if done.count == 2 { mailbox.post(5) }
                    if done.count == 6 { mailbox.post(1) }
                    return true
                }
            } else if milliseconds == 1 {
                loop.whenTurnEnds { loop.stop() }
            }
        }
        mailbox.post(10)
        withExtendedLifetime(receiver) { loop.run() }
        // The time of the first turn's events is unknown, since the loop waited for them.
        #expect(
            done == [
                "events of 10 ms", "piece", "events of 5 ms", "piece", "piece", "piece", "events of 1 ms", "piece",
            ])
    }

    @Test(
        "endless work does not starve events, and is dropped when the loop stops",
        .timeLimit(.minutes(1)))
    func endlessWork() throws {
        let loop = try Loop()
        var pieces = 0
        var ends = 0
        var last: LoopTimer?
        let first = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            last = LoopTimer(loop: loop, interval: .milliseconds(1)) {
                loop.whenTurnEnds { ends += 1 }
                loop.stop()
            }
            loop.work {
                pieces += 1
                return true
            }
        }
        withExtendedLifetime(first) { loop.run() }
        #expect(last != nil && pieces > 1 && ends == 1)
        #expect(!loop.isWorkLeft)
    }

    @Test("two kinds of long work alternate", .timeLimit(.minutes(1)))
    func severalWorks() throws {
        let loop = try Loop()
        var done: [String] = []
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            for (name, count) in [("a", 2), ("b", 3)] {
                var rest = count
                loop.work {
                    done.append(name)
                    rest -= 1
                    if name == "b", rest == 0 { loop.whenTurnEnds { loop.stop() } }
                    return rest > 0
                }
            }
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(done == ["a", "b", "a", "b", "b"])
    }

    @Test("a stopped loop can run again")
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

@Suite("Timers")
struct LoopTimerTests {
    @Test("a timer retains its loop: freeing its event needs it")
    func keepsLoop() throws {
        var loop: Loop? = try Loop()
        weak let observed = loop
        var timer: LoopTimer? = LoopTimer(loop: try #require(loop), interval: .seconds(60)) {}
        loop = nil
        #expect(observed != nil)
        withExtendedLifetime(timer) {}
        timer = nil
        #expect(observed == nil)
    }

    @Test("a signal watcher retains its loop")
    func watcherKeepsLoop() throws {
        var loop: Loop? = try Loop()
        weak let observed = loop
        // SIGURG is ignored by default.
        var watcher: SignalWatcher? = SignalWatcher(loop: try #require(loop), signal: 23) {}
        loop = nil
        #expect(observed != nil)
        withExtendedLifetime(watcher) {}
        watcher = nil
        #expect(observed == nil)
    }

    @Test("a timer's action receives the time at which it runs")
    func clock() throws {
        let loop = try Loop()
        let before = loop.now
        var seen: Instant?
        let timer = LoopTimer(loop: loop, interval: .milliseconds(5)) {
            seen = loop.now
            loop.stop()
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(try #require(seen) - before >= .milliseconds(5))
    }
}
