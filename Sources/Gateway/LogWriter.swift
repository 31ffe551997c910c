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
    private let thread: LoopThread

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
        thread = try LoopThread(name: "log") {
            // Without a loop there is no log; the process must not serve unlogged.
            guard let loop = try? Loop() else { fatalError("out of memory: the log's event loop") }
            let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { message in
                switch message {
                case .lines(let lines): Self.write(lines, to: descriptor)
                case .stop: loop.stop()
                }
            }
            withExtendedLifetime(receiver) { loop.run() }
            if descriptor != STDOUT_FILENO { close(descriptor) }
        }
    }

    func post(_ lines: [UInt8]) {
        if !mailbox.post(.lines(lines)) { dropped.add(1, ordering: .relaxed) }
    }

    /// How many chunks were dropped since it was asked last.
    func takeDropped() -> Int { dropped.exchange(0, ordering: .relaxed) }

    /// Writes what waits and ends the thread.
    func stop() {
        while !mailbox.post(.stop) { usleep(1_000) }
        thread.join()
    }

    private static func write(_ lines: [UInt8], to descriptor: Int32) {
        var written = 0
        lines.withUnsafeBytes { bytes in
            while written < bytes.count {
                let count = Glibc.write(descriptor, bytes.baseAddress.map { $0 + written }, bytes.count - written)
                if count > 0 { written += count } else if errno != EINTR { return }
            }
        }
    }
}
