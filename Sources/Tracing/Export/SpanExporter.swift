package import EventLoop
internal import Synchronization

/// Sends spans to a collector, from a thread of its own: a collector that is slow or gone slows no request.
///
/// For all workers and generations: `adopt` passes the changes of a reload.
package final class SpanExporter: Sendable {
    enum Message: Sendable {
        case batch(SpanBatch)
        case settings(ExportSettings)
        /// - flushes: what waits is sent once, for a moment.
        case stop(flushes: Bool)
    }

    package let counts = SpanExportCounts()
    private let mailbox: Mailbox<Message>
    private let thread = Mutex<LoopThread?>(nil)
    /// Nobody takes anything out of the mailbox any more.
    private let hasEnded = Atomic<Bool>(false)

    /// Blocks, of all workers; what they may hold is limited by their budgets.
    private static let limit = 4_096

    /// - Parameter tell: called on the exporter's thread with what people are to know, and whether it is a fault.
    package init(
        _ settings: ExportSettings, tell: @escaping @Sendable (_ text: String, _ isFault: Bool) -> Void
    ) throws(EventLoopError) {
        let mailbox = try Mailbox<Message>(limit: Self.limit)
        self.mailbox = mailbox
        let started = try LoopThread(name: "spans") { [self] in
            defer { hasEnded.store(true, ordering: .releasing) }
            do {
                let loop = try Loop()
                let sender = try SpanSender(settings, loop: loop, counts: counts, tell: tell)
                let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { sender.receive($0) }
                withExtendedLifetime(receiver) { loop.run() }
                sender.close()
            } catch {
                // The settings were tried before: memory or descriptors. Spans are then dropped when the mailbox is full.
                tell("cannot begin: \(error)", true)
            }
        }
        thread.withLock { $0 = started }
    }

    /// - Returns: false if it was not taken.
    func post(_ batch: SpanBatch) -> Bool { mailbox.post(.batch(batch)) }

    /// From the next call on.
    package func adopt(_ settings: ExportSettings) { mailbox.post(.settings(settings)) }

    /// Ends the thread, after all workers. - Parameter flushes: whether what waits is still sent, which takes three seconds at
    /// most.
    package func stop(flushes: Bool) {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        // The thread takes all it is given at once, so there is room soon.
        while !mailbox.post(.stop(flushes: flushes)), !hasEnded.load(ordering: .acquiring) { SpanSender.rest() }
        thread.join()
    }
}
