internal import CLinux
internal import Glibc
internal import Synchronization

/// A bounded queue of messages to the thread of one loop.
///
/// Any thread posts; the loop's thread receives in order. A flag shows whether a wake-up is pending, so a burst of
/// messages costs one `write` to the eventfd. This wakes a busy loop in 0.3 microseconds instead of 20. The eventfd is
/// never read: each `write` is an edge (epoll(7)), and its counter outlasts any process.
public final class Mailbox<Message: Sendable>: Sendable {
    private let queue = Mutex<[Message]>([])
    private let wakePending = Atomic<Bool>(false)
    private let limit: Int
    private let descriptor: Int32
    /// A second descriptor of the eventfd for the receiver, which closes its own. -1 after it has been taken. It is
    /// created here because the creation may fail: a receiver without it would silently receive nothing.
    private let receiving: Atomic<Int32>

    /// Creates a mailbox.
    ///
    /// - Parameter limit: the maximum number of waiting messages. `post` refuses further ones.
    public init(limit: Int) throws(EventLoopError) {
        self.limit = limit
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw .system(call: "eventfd", errno: errno) }
        let second = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard second >= 0 else {
            let error = errno
            close(descriptor)
            throw .system(call: "fcntl", errno: error)
        }
        receiving = Atomic(second)
    }

    deinit {
        close(descriptor)
        let second = receiving.load(ordering: .relaxed)
        if second >= 0 { close(second) }
    }

    /// Removes and returns the receiver's descriptor. A mailbox has one receiver, once.
    fileprivate func takeReceiving() -> Int32 {
        let second = receiving.exchange(-1, ordering: .relaxed)
        precondition(second >= 0, "a mailbox has one receiver")
        return second
    }

    /// Adds a message.
    ///
    /// - Returns: false if the mailbox is full and the message was refused.
    @discardableResult
    public func post(_ message: Message) -> Bool {
        let taken = queue.withLock { queue in
            guard queue.count < limit else { return false }
            queue.append(message)
            return true
        }
        if taken, !wakePending.exchange(true, ordering: .acquiringAndReleasing) {
            var one: UInt64 = 1
            // Cannot fail: the counter of an eventfd overflows only after 2^64 - 2 unread wake-ups.
            _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
        }
        return taken
    }

    /// Exchanges the waiting messages for an empty array.
    ///
    /// - Parameter messages: an empty array. Its capacity passes to the mailbox.
    fileprivate func takeAll(into messages: inout [Message]) {
        // Cleared before the queue is read: a message posted from here on wakes the loop again.
        wakePending.store(false, ordering: .sequentiallyConsistent)
        queue.withLock { queue in swap(&queue, &messages) }
    }
}

/// The receiving end of a mailbox, on the thread of its loop. Releasing it ends the reception.
public final class MailboxReceiver<Message: Sendable>: SocketHandler {
    private let mailbox: Mailbox<Message>
    private let receive: (Message) -> Void
    private let received: () -> Void
    /// Empty, with its capacity kept.
    private var spare: [Message] = []

    /// Starts the reception.
    ///
    /// - Parameters:
    ///   - receive: called with each message.
    ///   - received: called after all waiting messages were received, for work in batches.
    public init(
        loop: Loop, mailbox: Mailbox<Message>, receive: @escaping (Message) -> Void,
        received: @escaping () -> Void = {}
    ) {
        self.mailbox = mailbox
        self.receive = receive
        self.received = received
        super.init(loop: loop, socket: Socket(adopting: mailbox.takeReceiving()), readsEdges: true)
        wantRead(true)
    }

    public override func readable() {
        var messages: [Message] = []
        swap(&messages, &spare)
        mailbox.takeAll(into: &messages)
        for message in messages { receive(message) }
        messages.removeAll(keepingCapacity: true)
        swap(&messages, &spare)
        received()
    }
}
