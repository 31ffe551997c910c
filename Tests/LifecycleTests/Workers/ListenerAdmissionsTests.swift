import Testing
import Vocabulary

@testable import Lifecycle
@testable import TLS

@Suite("What is said of an earlier generation's connections")
struct ListenerAdmissionsTests {
    private func name(_ text: String) throws -> ServerName { try #require(ServerName(text)) }

    private func admissions() throws -> ListenerAdmissions {
        ListenerAdmissions(
            standard: ClientAdmission(), hosts: [try name("a.example"): ClientAdmission(pins: [])])
    }

    /// Whether it is the host that admits nobody.
    private func isHost(_ admission: ClientAdmission?) -> Bool? { admission?.pins?.isEmpty }

    @Test("by the host that they asked for, also if it is new")
    func host() throws {
        for wasHost in [true, false] {
            let admission = try admissions().successor(of: name("a.example"), wasHost: wasHost)
            #expect(isHost(admission) == true)
        }
    }

    @Test("by what the listener says for everybody else, if they asked for none or for another")
    func standard() throws {
        let admissions = try admissions()
        for asked in [nil, try name("b.example")] {
            let admission = admissions.successor(of: asked, wasHost: false)
            #expect(admission != nil && isHost(admission) == nil)
        }
    }

    @Test("not by what is said for everybody else, if their host is gone")
    func gone() throws {
        #expect(try admissions().successor(of: name("b.example"), wasHost: true) == nil)
    }
}
