import Testing

@testable import Lifecycle

@Suite("A change of configuration happens in all workers or in none")
struct GenerationChangeTests {
    @Test("all serve it once all are ready, and it is over once all serve it")
    func done() {
        var change = GenerationChange(workers: [0, 1, 2])
        #expect(change.prepared(by: 2, fault: nil) == .wait)
        #expect(change.prepared(by: 0, fault: nil) == .wait)
        #expect(change.prepared(by: 1, fault: nil) == .adopt)
        #expect(change.adopted(by: 0) == .wait)
        #expect(change.adopted(by: 0) == .wait, "said twice counts once")
        #expect(change.adopted(by: 1) == .wait)
        #expect(change.adopted(by: 2) == .finish)
    }

    @Test("one that cannot keeps it from all, and is reported once, when nobody can say more of it")
    func discarded() {
        var change = GenerationChange(workers: [0, 1, 2])
        #expect(change.prepared(by: 0, fault: nil) == .wait)
        #expect(change.prepared(by: 1, fault: "no memory") == .wait, "worker 2 is still making it ready")
        #expect(change.prepared(by: 2, fault: "no descriptors") == .discard(fault: "no memory"))
        #expect(change.prepared(by: 2, fault: nil) == .wait)
        #expect(change.adopted(by: 0) == .wait)
    }

    @Test("a worker that serves it before all are ready changes nothing")
    func early() {
        var change = GenerationChange(workers: [0, 1])
        #expect(change.prepared(by: 0, fault: nil) == .wait)
        #expect(change.adopted(by: 0) == .wait)
        #expect(change.prepared(by: 1, fault: nil) == .adopt)
        #expect(change.adopted(by: 1) == .wait)
        #expect(change.adopted(by: 0) == .finish)
    }
}
