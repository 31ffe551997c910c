internal import EventLoop
internal import Glibc
internal import Synchronization

/// Writes log lines to a file or standard output, on a thread of its own: a slow disk or pipe slows no request.
///
/// Bounded: while the writer is that far behind, further chunks are dropped and counted, and the count is logged once it
/// has caught up.
final class LogWriter: Sendable {
    private enum Message: Sendable {
        case lines([UInt8])
        case stop
    }

    private let mailbox: Mailbox<Message>
    private let dropped = Atomic<Int>(0)
    private let reported = Atomic<Int>(0)
    private let isStopping = Atomic<Bool>(false)
    /// Nobody reads while the process is to end: what is left is dropped.
    private let hasGivenUp = Atomic<Bool>(false)
    private let thread = Mutex<LoopThread?>(nil)

    /// Chunks of up to 32 KiB that may wait.
    private static let limit = 512

    /// - Parameter path: appended to; nil for standard output.
    init(path: String?) throws(EventLoopError) {
        let descriptor: Int32
        if let path {
            descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o640)
            guard descriptor >= 0 else { throw .system(call: "open \(path)", errno: errno) }
        } else {
            descriptor = STDOUT_FILENO
        }
        let mailbox = try Mailbox<Message>(limit: Self.limit)
        self.mailbox = mailbox
        let started = try LoopThread(name: "log") { [self] in
            // Without a loop there is no log; the process must not serve unlogged.
            guard let loop = try? Loop() else { fatalError("out of memory: the log's event loop") }
            let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] message in
                switch message {
                case .lines(let lines): write(lines, to: descriptor)
                case .stop: loop.stop()
                }
            }
            withExtendedLifetime(receiver) { loop.run() }
            if descriptor != STDOUT_FILENO { close(descriptor) }
        }
        thread.withLock { $0 = started }
    }

    func post(_ lines: [UInt8]) {
        if !mailbox.post(.lines(lines)) { dropped.add(1, ordering: .relaxed) }
    }

    /// How many chunks were dropped since it was asked last.
    func takeDropped() -> Int {
        let count = dropped.exchange(0, ordering: .relaxed)
        if count > 0 { reported.add(count, ordering: .relaxed) }
        return count
    }

    /// How many chunks were dropped since the process began.
    var droppedInAll: Int { dropped.load(ordering: .relaxed) + reported.load(ordering: .relaxed) }

    /// Writes what waits, as far as it is taken, and ends the thread.
    func stop() {
        isStopping.store(true, ordering: .relaxed)
        while !mailbox.post(.stop) { usleep(1_000) }
        thread.withLock { $0.take() }?.join()
    }

    /// Waits for room rather than blocking in the write: a reader that has stopped reading must not keep the process from
    /// ending. Lines that cannot be written are counted.
    private func write(_ lines: [UInt8], to descriptor: Int32) {
        var written = 0
        while written < lines.count {
            guard !hasGivenUp.load(ordering: .relaxed) else { return lost() }
            var readiness = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
            guard poll(&readiness, 1, Self.pollInterval) > 0 else {
                if isStopping.load(ordering: .relaxed) { hasGivenUp.store(true, ordering: .relaxed) }
                continue
            }
            // What a pipe is ready for is at least this much; a file takes any amount.
            let part = min(lines.count - written, Int(PIPE_BUF))
            let count = lines.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress.map { $0 + written }, part) }
            if count > 0 { written += count } else if errno != EINTR { return lost() }
        }
    }

    private func lost() { dropped.add(1, ordering: .relaxed) }

    /// Milliseconds.
    private static let pollInterval: Int32 = 500
}
