import Testing
import Vocabulary

@testable import Gateway

@Suite("The table of observed requests")
struct ObservedRequestsTests {
    private func key(_ version: String, app: String = "app") -> ObservedRequests.Key {
        ObservedRequests.Key(route: "records", app: app, version: version)
    }

    @Test("a row counts what passed, and the others by their denial")
    func rows() {
        var table = ObservedRequests()
        for denial in [nil, nil, Denial.proofRequired, .counterReplayed, .proofRequired] {
            table.count(key("a/1"), denial)
        }
        let row = table.rows[key("a/1")]
        #expect(row?.requests == 5 && row?.passed == 2)
        #expect(row?.denials == [.proofRequired: 2, .counterReplayed: 1])
    }

    private func sum(_ rows: [ObservedRequests.Key: ObservedRequests.Row]) -> UInt64 {
        rows.values.reduce(0) { $0 + $1.requests }
    }

    @Test("beyond the limit the least requested rows share one of their app, and no request is lost")
    func limit() {
        var table = ObservedRequests()
        for number in 0..<1_000 { table.count(key("a/\(number)"), nil) }
        #expect(table.rows.count == ObservedRequests.limit + 1)
        #expect(table.rows[key(ObservedRequests.others)]?.requests == UInt64(1_000 - ObservedRequests.limit))
        #expect(sum(table.rows) == 1_000)
    }

    @Test("no stream of invented versions takes the row of a version in use, before or after")
    func invention() {
        var table = ObservedRequests()
        for number in 0..<100_000 {
            table.count(key("invented/\(number)"), .proofRequired)
            // A new version appears in the middle of it.
            if number % 100 == 0 { table.count(key("used/1"), nil) }
            if number % 100 == 50, number > 50_000 { table.count(key("used/2"), nil) }
        }
        #expect(table.rows[key("used/1")]?.passed == 1_000)
        #expect(table.rows[key("used/2")]?.passed == 500)
        #expect(table.rows.count == ObservedRequests.limit + 1)
    }

    @Test("the versions of one app leave half of the rows to another")
    func apps() {
        var table = ObservedRequests()
        for number in 0..<1_000 { table.count(key("invented/\(number)", app: ""), nil) }
        for number in 0..<1_000 { table.count(key("a/\(number % 128)"), nil) }
        #expect((0..<128).allSatisfy { table.rows[key("a/\($0)")] != nil })
        #expect(sum(table.rows) == 2_000)
    }

    @Test("what is new since an earlier moment, although rows have given way and come again")
    func differences() {
        var table = ObservedRequests()
        for number in 0..<300 { table.count(key("a/\(number)"), nil) }
        let before = table
        #expect(table.since(before).isEmpty)
        for number in 0..<300 { table.count(key("a/\(number)"), .proofStale) }
        let new = table.since(before)
        #expect(sum(new) == 300)
        #expect(new.values.allSatisfy { $0.passed == 0 && $0.denials == [.proofStale: $0.requests] })
    }

    @Test("what a client calls itself is cut before anything that could confuse")
    func versions() {
        for (agent, version) in [
            ("Records/4.2 (iPhone)", "Records/4.2"), ("a\"b", "a"), ("a\\b", "a"), ("", ""), (" x", ""),
            ("ä", ""), (String(repeating: "x", count: 50), String(repeating: "x", count: 40)),
        ] {
            let bytes = Array(agent.utf8)
            #expect(ClientVersion.text(of: bytes.span) == version)
        }
    }
}
