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
