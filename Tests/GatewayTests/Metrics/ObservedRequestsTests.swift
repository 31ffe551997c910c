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

    @Test("beyond the limit versions share a row of their app")
    func limit() {
        var table = ObservedRequests()
        for number in 0..<1_000 { table.count(key("a/\(number)"), nil) }
        #expect(table.rows.count == ObservedRequests.limit + 1)
        #expect(table.rows[key(ObservedRequests.others)]?.requests == UInt64(1_000 - ObservedRequests.limit))
        table.count(key("a/0"), nil)
        #expect(table.rows[key("a/0")]?.requests == 2)
    }

    @Test("sums of workers, and what is new since an earlier moment")
    func differences() {
        var (one, other) = (ObservedRequests(), ObservedRequests())
        one.count(key("a/1"), nil)
        let before = one
        other.count(key("a/1"), .proofStale)
        other.count(key("a/2"), nil)
        var names = ObservedRequests.Names()
        one.add(other, &names)
        let new = one.since(before)
        #expect(new == other)
        #expect(one.since(one).rows.isEmpty)
    }

    @Test("the sum of workers that met different versions has no more rows, and the same ones at each moment")
    func manyWorkers() {
        var workers = [ObservedRequests](repeating: ObservedRequests(), count: 4)
        for number in 0..<4_000 { workers[number % 4].count(key("a/\(number)"), nil) }
        var names = ObservedRequests.Names()
        func sum() -> ObservedRequests { workers.reduce(into: ObservedRequests()) { $0.add($1, &names) } }
        let before = sum()
        #expect(before.rows.count <= ObservedRequests.limit + 1)
        #expect(before.rows.values.reduce(0) { $0 + $1.requests } == 4_000)
        workers[3].count(key("a/3"), nil)
        #expect(sum().since(before).rows.values.map(\.requests) == [1])
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
