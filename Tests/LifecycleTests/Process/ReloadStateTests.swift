import Testing

@testable import Lifecycle

@Suite("A reload")
struct ReloadStateTests {
    @Test("ends once, whoever says so again: it is counted once, and its first outcome stays")
    func once() {
        var reload = ReloadState()
        reload.isUnderWay = true
        #expect(reload.ended(.failed("the gateway is stopping"), at: 7))
        #expect(!reload.ended(.failed("no such file"), at: 8), "the loader had not finished then")
        #expect(!reload.ended(.done(generation: 2), at: 9))
        #expect(reload.last?.outcome == .failed("the gateway is stopping") && reload.last?.at == 7)
        #expect((reload.succeeded, reload.failed) == (0, 1))
    }

    @Test("that nobody has begun does not end")
    func none() {
        var reload = ReloadState()
        #expect(!reload.ended(.failed("the gateway is stopping"), at: 7))
        #expect(reload.last == nil && reload.failed == 0)
    }
}
