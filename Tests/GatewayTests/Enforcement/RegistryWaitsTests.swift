import EventLoop
import Testing

@testable import Gateway

@Suite("Waiting for the registry")
struct RegistryWaitsTests {
    private final class Waiter {}

    private func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    @Test("an answer reaches its waiter once")
    func once() {
        var waits = RegistryWaits<Waiter>()
        let (one, other) = (Waiter(), Waiter())
        let (first, second) = (waits.enter(one, at: at(0)), waits.enter(other, at: at(0)))
        #expect(first != second && waits.count == 2)
        #expect(waits.leave(second) === other)
        #expect(waits.leave(second) == nil)
        #expect(waits.leave(first) === one && waits.count == 0)
    }

    @Test("an answer after its waiter has left reaches nobody, even if the place is used again")
    func stale() {
        var waits = RegistryWaits<Waiter>()
        let old = waits.enter(Waiter(), at: at(0))
        _ = waits.leave(old)
        let next = Waiter()
        let token = waits.enter(next, at: at(0))
        #expect(token & 0xffff_ffff == old & 0xffff_ffff, "the place is used again")
        #expect(waits.leave(old) == nil)
        #expect(waits.leave(token) === next)
        #expect(waits.leave(.max) == nil)
    }

    @Test("only overdue waiters are found")
    func overdue() {
        var waits = RegistryWaits<Waiter>()
        let (early, late) = (Waiter(), Waiter())
        let token = waits.enter(early, at: at(0))
        _ = waits.enter(late, at: at(3))
        #expect(waits.overdue(at: at(4), after: .seconds(5)).isEmpty)
        #expect(waits.overdue(at: at(5), after: .seconds(5)).map(ObjectIdentifier.init) == [ObjectIdentifier(early)])
        _ = waits.leave(token)
        #expect(waits.overdue(at: at(5), after: .seconds(5)).isEmpty)
        #expect(waits.overdue(at: at(9), after: .seconds(5)).count == 1)
    }
}
