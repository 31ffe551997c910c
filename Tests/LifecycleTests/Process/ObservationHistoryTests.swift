import Testing
import Vocabulary

@testable import Gateway
@testable import Lifecycle

@Suite("The history of observed requests")
struct ObservationHistoryTests {
    private let key = ObservedRequests.Key(route: "records", app: "", version: "")

    @Test("an hour and a day end at their first moments, and moments are forgotten")
    func windows() {
        var (history, total) = (ObservationHistory(), ObservedRequests())
        #expect(history.lastHour(total).rows.isEmpty)
        // One request in each minute of three days.
        for minute in 0..<Int64(3 * 24 * 60) {
            history.keep(total, at: minute)
            total.count(key, nil)
            let hour = history.lastHour(total).rows[key]?.requests ?? 0
            let day = history.lastDay(total).rows[key]?.requests ?? 0
            #expect(hour == UInt64(min(minute + 1, 61)))
            #expect(day <= 24 * 60 + 1 && day >= min(UInt64(minute) + 1, 23 * 60))
        }
    }

    @Test("a second look within a minute keeps the first moment")
    func twice() {
        var (history, total) = (ObservationHistory(), ObservedRequests())
        history.keep(total, at: 5)
        total.count(key, nil)
        history.keep(total, at: 5)
        #expect(history.lastHour(total).rows[key]?.requests == 1)
    }
}
