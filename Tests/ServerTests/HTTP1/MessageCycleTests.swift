import Testing

@testable import Server

@Suite("The cycle of request and response")
struct MessageCycleTests {
    private func served(isPersistent: Bool = true) -> MessageCycle {
        var cycle = MessageCycle()
        cycle.headComplete(isPersistent: isPersistent)
        return cycle
    }

    @Test("the next request follows when both halves are complete")
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

    @Test("a connection that is not to persist is closed after the response")
    func close() {
        var cycle = served(isPersistent: false)
        cycle.contentEnded()
        cycle.responseEnded()
        #expect(cycle.conclude() == .close)
    }

    @Test("after an early answer, the rest of the request is never taken for the next one")
    func early() {
        var cycle = served(isPersistent: false)
        cycle.responseEnded()
        #expect(cycle.conclude() == .linger)
        #expect(cycle.phase == .lingering)
    }

    @Test("after an early answer that keeps the connection, the rest of the request is read over first")
    func earlyAndPersistent() {
        var cycle = served()
        cycle.responseEnded()
        #expect(cycle.conclude() == .unfinished)
        cycle.contentEnded()
        #expect(cycle.conclude() == .nextRequest)
    }

    @Test("after a head that cannot be read, nothing is read as a request any more")
    func refusedHead() {
        var cycle = MessageCycle()
        cycle.headBegun()
        cycle.headRefused()
        cycle.responseEnded()
        #expect(cycle.conclude() == .linger)
    }
}
