import EventLoop
import Synchronization
import Testing

@Suite("Mailboxes")
struct MailboxTests {
    @Test("messages of many threads all arrive, each sender's in order")
    func manySenders() throws {
        let senders = 4
        let each = 5_000
        let mailbox = try Mailbox<(sender: Int, number: Int)>(limit: senders * each)
        let loop = try Loop()
        var last = [Int](repeating: -1, count: senders)
        var received = 0
        var isOrdered = true
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { message in
            isOrdered = isOrdered && message.number == last[message.sender] + 1
            last[message.sender] = message.number
            received += 1
            if received == senders * each { loop.stop() }
        }
        let threads = try (0..<senders).map { sender in
            try LoopThread(name: "sender") {
                for number in 0..<each { mailbox.post((sender, number)) }
            }
        }
        withExtendedLifetime(receiver) { loop.run() }
        for thread in threads { thread.join() }
        #expect(isOrdered)
        #expect(last == [Int](repeating: each - 1, count: senders))
    }

    @Test("a full mailbox refuses messages until it is emptied")
    func bounded() throws {
        let mailbox = try Mailbox<Int>(limit: 2)
        #expect(mailbox.post(1))
        #expect(mailbox.post(2))
        #expect(!mailbox.post(3))
        let loop = try Loop()
        var received: [Int] = []
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { message in
            received.append(message)
            if message == 2 { loop.stop() }
        }
        withExtendedLifetime(receiver) { loop.run() }
        #expect(received == [1, 2])
        #expect(mailbox.post(4))
    }

    @Test("the end of each batch is reported once, after all its messages")
    func lots() throws {
        let mailbox = try Mailbox<Int>(limit: 10)
        for number in 1...3 { mailbox.post(number) }
        let loop = try Loop()
        var lots: [[Int]] = []
        var lot: [Int] = []
        let receiver = MailboxReceiver(loop: loop, mailbox: mailbox, receive: { lot.append($0) }) {
            lots.append(lot)
            lot = []
            if lots.count == 1 { mailbox.post(4) } else { loop.stop() }
        }
        withExtendedLifetime(receiver) { loop.run() }
        #expect(lots == [[1, 2, 3], [4]])
    }
}
