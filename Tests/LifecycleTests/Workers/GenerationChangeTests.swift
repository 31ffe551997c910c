import Testing

@testable import Lifecycle

@Suite("A change of generation")
struct GenerationChangeTests {
    @Test("all workers adopt a generation once all are ready, and the change ends with the last")
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

    @Test("a worker that fails stops the change for all, reported once at the end")
    func discarded() {
        var change = GenerationChange(workers: [0, 1, 2])
        #expect(change.prepared(by: 0, fault: nil) == .wait)
        #expect(change.prepared(by: 1, fault: "no memory") == .wait, "worker 2 is still making it ready")
        #expect(change.prepared(by: 2, fault: "no descriptors") == .discard(fault: "no memory"))
        #expect(change.prepared(by: 2, fault: nil) == .wait)
        #expect(change.adopted(by: 0) == .wait)
    }

    @Test("a worker that adopts the generation early changes nothing")
    func early() {
        var change = GenerationChange(workers: [0, 1])
        #expect(change.prepared(by: 0, fault: nil) == .wait)
        #expect(change.adopted(by: 0) == .wait)
        #expect(change.prepared(by: 1, fault: nil) == .adopt)
        #expect(change.adopted(by: 1) == .wait)
        #expect(change.adopted(by: 0) == .finish)
    }
}
