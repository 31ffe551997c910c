import Testing

@testable import Gateway

@Suite("The limit on refusal log lines")
struct RefusalBudgetTests {
    @Test("refusals per second are limited, and omitted ones are reported after it")
    func bound() {
        var budget = RefusalBudget(limit: 2)
        let first = (0..<5).map { _ in budget.admits(at: 7) }
        #expect(first == [true, true, false, false, false])
        #expect(budget.owesCount)
        let early = budget.takeSuppressed(at: 7)
        #expect(early == nil, "more may come")
        let counts = [budget.takeSuppressed(at: 8), budget.takeSuppressed(at: 8)]
        #expect(counts == [3, nil] && !budget.owesCount)
        let second = (0..<3).map { _ in budget.admits(at: 8) }
        #expect(second == [true, true, false])
    }

    @Test("a clock that is set back begins a new second")
    func clock() {
        var budget = RefusalBudget(limit: 1)
        let admitted = [100, 100, 50].map { budget.admits(at: $0) }
        #expect(admitted == [true, false, true])
        let count = budget.takeSuppressed(at: 51)
        #expect(count == 1)
    }
}
