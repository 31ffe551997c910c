import Testing
import Vocabulary

@testable import Lifecycle
@testable import TLS

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
