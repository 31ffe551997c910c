import Registry
import Testing

@testable import Gateway

@Suite("The content budget of a worker")
struct ContentBudgetTests {
    @Test("no device holds more than its share, and a device without content is not stored")
    func share() throws {
        let device = try #require(DeviceID(1))
        let other = try #require(DeviceID(2))
        let budget = ContentBudget(limit: 10, share: 4)
        #expect(budget.take(4, for: device) && !budget.take(1, for: device))
        #expect(budget.take(4, for: other) && budget.holders == 2)
        budget.give(1, of: device)
        #expect(budget.take(1, for: device) && !budget.take(1, for: device))
        budget.give(4, of: device)
        budget.give(4, of: other)
        #expect(budget.holders == 0 && budget.take(0, for: device) && budget.holders == 0)
    }
}
