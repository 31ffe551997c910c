import Testing

@testable import Server

@Suite("The message cycle of a connection")
struct MessageCycleTests {
    private func served(isPersistent: Bool = true) -> MessageCycle {
        var cycle = MessageCycle()
        cycle.headComplete(isPersistent: isPersistent)
        return cycle
    }

    @Test("the next request is read when both request and response are complete")
    func next() {
        var cycle = served()
        #expect(cycle.conclude() == .unfinished)
        cycle.contentEnded()
        #expect(cycle.conclude() == .unfinished)
        cycle.responseEnded()
        #expect(cycle.conclude() == .nextRequest)
        #expect(cycle.phase == .idle)
        #expect(cycle.conclude() == .unfinished)
    }

    @Test("a connection that is not persistent is closed after the response")
    func close() {
        var cycle = served(isPersistent: false)
        cycle.contentEnded()
        cycle.responseEnded()
        #expect(cycle.conclude() == .close)
    }

    @Test("after an early response the rest of the request is never read as the next one")
    func early() {
        var cycle = served(isPersistent: false)
        cycle.responseEnded()
        #expect(cycle.conclude() == .linger)
        #expect(cycle.phase == .lingering(discarded: 0))
    }

    @Test("after an early response on a kept connection the rest is skipped first")
    func earlyAndPersistent() {
        var cycle = served()
        cycle.responseEnded()
        #expect(cycle.conclude() == .unfinished)
        cycle.contentEnded()
        #expect(cycle.conclude() == .nextRequest)
    }

    @Test("after a malformed head nothing more is read as a request")
    func refusedHead() {
        var cycle = MessageCycle()
        cycle.headBegun()
        cycle.headRefused()
        cycle.responseEnded()
        #expect(cycle.conclude() == .linger)
    }
}
