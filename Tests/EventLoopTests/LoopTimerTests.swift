import EventLoop
import Testing

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
