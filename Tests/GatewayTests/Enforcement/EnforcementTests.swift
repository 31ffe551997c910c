import EventLoop
import Testing

@testable import Gateway

@Suite("The verification queue", .timeLimit(.minutes(1)))
struct VerificationQueueTests {
    @Test("proofs are verified in order of arrival, over as many turns as needed")
    func order() throws {
        let loop = try Loop()
        var verified: [UInt64] = []
        let queue = VerificationQueue(loop: loop) { token in
            verified.append(token)
            if token == 1_000 { loop.stop() }
            return true
        }
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            for token in 1...1_000 { queue.enter(UInt64(token)) }
            #expect(verified.isEmpty, "none within the event that brings it")
        }
        withExtendedLifetime((timer, queue)) { loop.run() }
        #expect(verified == Array(1...1_000))
    }

    @Test("events that become ready are served between proofs")
    func eventsBetween() throws {
        let loop = try Loop(time: { Instant(nanoseconds: 0) })
        let mailbox = try Mailbox<UInt64>(limit: 10)
        var done: [String] = []
        let queue = VerificationQueue(loop: loop) { token in
            done.append("proof \(token)")
            mailbox.post(token)
            return true
        }
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { number in
            guard number > 0 else { return (1...5).forEach { queue.enter($0) } }
            done.append("event \(number)")
            if number == 5 { loop.stop() }
        }
        mailbox.post(0)
        withExtendedLifetime((receiver, queue)) { loop.run() }
        #expect(
            done == [
                "proof 1", "proof 2", "event 1", "event 2", "proof 3", "proof 4", "event 3", "event 4", "proof 5",
                "event 5",
            ])
    }

    @Test("proofs that have left take no turn, and later ones are verified after an empty queue")
    func leaving() throws {
        let loop = try Loop()
        let mailbox = try Mailbox<UInt64>(limit: 100)
        var verified: [UInt64] = []
        let queue = VerificationQueue(loop: loop) { token in
            guard token % 10 == 0 else { return false }
            verified.append(token)
            mailbox.post(token)
            return true
        }
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { number in
            guard number < 100 else { return loop.stop() }
            for token in (number + 1)...(number + 10) { queue.enter(token) }
        }
        mailbox.post(0)
        withExtendedLifetime((receiver, queue)) { loop.run() }
        #expect(verified == (1...10).map { $0 * 10 })
    }

    @Test("a freed queue is not called again")
    func gone() throws {
        let loop = try Loop()
        var queue: VerificationQueue? = VerificationQueue(loop: loop) { _ in
            Issue.record("verified")
            return true
        }
        let timer = LoopTimer(loop: loop, interval: .milliseconds(1)) {
            queue?.enter(1)
            queue = nil
            loop.whenTurnEnds { loop.stop() }
        }
        withExtendedLifetime(timer) { loop.run() }
        #expect(!loop.isWorkLeft)
    }
}

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
