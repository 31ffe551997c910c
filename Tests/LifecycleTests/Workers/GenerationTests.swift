import Testing
import Vocabulary

@testable import Lifecycle
@testable import TLS

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

@Suite("Admission of older connections after a reload")
struct ListenerAdmissionsTests {
    private func name(_ text: String) throws -> ServerName { try #require(ServerName(text)) }

    private func admissions() throws -> ListenerAdmissions {
        ListenerAdmissions(
            standard: ClientAdmission(), hosts: [try name("a.example"): ClientAdmission(pins: [])])
    }

    /// Whether it is the host that admits nobody.
    private func isHost(_ admission: ClientAdmission?) -> Bool? { admission?.pins?.isEmpty }

    @Test("a connection is judged by the host it asked for, even if that host is new")
    func host() throws {
        for wasHost in [true, false] {
            let admission = try admissions().successor(of: name("a.example"), wasHost: wasHost)
            #expect(isHost(admission) == true)
        }
    }

    @Test("a connection without a known host is judged by the listener's own settings")
    func standard() throws {
        let admissions = try admissions()
        for asked in [nil, try name("b.example")] {
            let admission = admissions.successor(of: asked, wasHost: false)
            #expect(admission != nil && isHost(admission) == nil)
        }
    }

    @Test("a connection whose host was removed is not judged by the listener's settings")
    func gone() throws {
        #expect(try admissions().successor(of: name("b.example"), wasHost: true) == nil)
    }
}
