import Testing
import Vocabulary

@testable import Gateway
@testable import Lifecycle

@Suite("The history of observed requests")
struct ObservationHistoryTests {
    private let key = ObservedRequests.Key(route: "records", app: "", version: "")

    @Test("an hour and a day end at their first moments, and moments are forgotten")
    func windows() {
        var (history, total) = (ObservationHistory<ObservedRequests>(), ObservedRequests())
        #expect(history.lastHour.isEmpty)
        // One request in each minute of three days.
        for minute in 0..<Int64(3 * 24 * 60) {
            history.keep(at: minute)
            total.count(key, nil)
            history.take([0: total])
            let hour = history.lastHour[key]?.requests ?? 0
            let day = history.lastDay[key]?.requests ?? 0
            #expect(hour == UInt64(min(minute + 1, 61)))
            #expect(day <= 24 * 60 + 1 && day >= min(UInt64(minute) + 1, 23 * 60))
        }
    }

    @Test("a second look within a minute keeps the first moment")
    func twice() {
        var (history, total) = (ObservationHistory<ObservedRequests>(), ObservedRequests())
        history.keep(at: 5)
        total.count(key, nil)
        history.take([0: total])
        history.keep(at: 5)
        #expect(history.lastHour[key]?.requests == 1)
    }

    @Test("workers that met different versions are summed, each request once, in at most as many rows as one has")
    func workers() {
        func key(_ version: Int) -> ObservedRequests.Key { .init(route: "records", app: "", version: "a/\(version)") }
        var (history, tables) = (ObservationHistory<ObservedRequests>(), [Int: ObservedRequests]())
        func sum(_ rows: [ObservedRequests.Key: ObservedRequests.Row]) -> UInt64 {
            rows.values.reduce(0) { $0 + $1.requests }
        }
        for number in 0..<4_000 { tables[number % 4, default: ObservedRequests()].count(key(number), nil) }
        history.take(tables)
        history.keep(at: 1)
        #expect(tables.values.reduce(0) { $0 + sum($1.rows) } == 4_000)
        for number in 0..<100 { tables[number % 4]?.count(key(number % 2), nil) }
        history.take(tables)
        history.take(tables)
        #expect(sum(history.lastHour) == 100 && history.lastHour.count <= 257)
    }
}
