import Testing

@testable import Lifecycle

@Suite("How descriptors are shared out")
struct DescriptorBudgetTests {
    private let demand = DescriptorBudget.Demand(
        workers: 2, listeners: 1, doors: 1, lookups: 0, calls: 0, clients: 20_000, upstreams: 2_048)

    private func budget(_ limit: Int) -> DescriptorBudget { DescriptorBudget(limit: limit, demand: demand) }

    @Test("what is needed is the sum of all; from there on nobody has to wait")
    func enough() {
        let needed = budget(0).needed
        #expect(needed == budget(0).base + budget(0).spare + 22_048)
        #expect(budget(needed).objection == nil)
        #expect(Int(budget(needed).clientCeiling) >= budget(needed).base + 20_000)
        #expect(budget(needed - 1).objection?.isFatal == false)
    }

    @Test("with too few, upstreams have a descriptor for each client's, and others what is kept back")
    func scarce() {
        for limit in 100...5_000 {
            let budget = budget(limit)
            guard budget.objection?.isFatal != true else { continue }
            let (clients, upstreams) = (Int(budget.clientCeiling), Int(budget.upstreamCeiling))
            #expect(budget.base < clients && clients < upstreams)
            #expect(upstreams - clients >= min(clients - 1, 2_048))
            #expect(upstreams == limit - budget.spare)
            #expect(upstreams < Int(budget.operatorCeiling) && Int(budget.operatorCeiling) < limit)
        }
    }

    @Test("it is refused where not even two clients of each worker could be served")
    func refused() {
        let least = budget(0).spare + 2 * (budget(0).base + 4)
        #expect(budget(least - 1).objection?.isFatal == true)
        #expect(budget(least).objection?.isFatal == false)
    }

    @Test("no limit is no limit")
    func unlimited() {
        #expect(budget(Int(Int32.max)).objection == nil)
        #expect(DescriptorBudget.processLimit > 0)
    }
}
