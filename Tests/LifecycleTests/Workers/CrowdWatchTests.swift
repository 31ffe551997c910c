import Testing

@testable import Lifecycle

@Suite("Watching for mass departures")
struct CrowdWatchTests {
    private func reports(of counts: [Int]) -> [Bool] {
        var watch = ConnectionPeakWatch()
        return counts.map { watch.hasLeft(connections: $0) }
    }

    @Test("a departure of three in four connections is reported once")
    func once() {
        #expect(
            reports(of: [10, 4_000, 2_000, 1_001, 900, 10, 0]) == [false, false, false, false, true, false, false])
    }

    @Test("counting restarts with the connections that stayed")
    func beginsAgain() {
        #expect(reports(of: [8_000, 2_000, 500, 400, 3_000, 700]) == [false, true, true, false, false, true])
    }

    @Test("fewer than a thousand connections are not watched")
    func few() {
        #expect(reports(of: [999, 0, 1_000, 0]) == [false, false, false, true])
    }
}
