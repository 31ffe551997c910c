import Testing

@testable import Lifecycle

@Suite("The watch for crowds that leave")
struct CrowdWatchTests {
    private func reports(of counts: [Int]) -> [Bool] {
        var watch = CrowdWatch()
        return counts.map { watch.hasLeft(connections: $0) }
    }

    @Test("says once that three in four of a crowd have gone")
    func once() {
        #expect(
            reports(of: [10, 4_000, 2_000, 1_001, 900, 10, 0]) == [false, false, false, false, true, false, false])
    }

    @Test("begins anew with those that have stayed")
    func anew() {
        #expect(reports(of: [8_000, 2_000, 500, 400, 3_000, 700]) == [false, true, true, false, false, true])
    }

    @Test("takes fewer than a thousand for no crowd")
    func few() {
        #expect(reports(of: [999, 0, 1_000, 0]) == [false, false, false, true])
    }
}
