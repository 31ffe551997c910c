package import EventLoop
internal import Glibc
internal import Synchronization

/// Writes log lines to a file, standard output or standard error, on a thread of its own: a slow disk or pipe slows no
/// request.
///
/// Bounded: while the writer is that far behind, further chunks are dropped and counted, and the count is logged once it
/// has caught up.
package final class LogWriter: Sendable {
    package enum Destination: Equatable, Sendable {
        case standardOutput
        case standardError
        /// Appended to, and made if it is not there.
        case file(String)
    }

    private enum Message: Sendable {
        case lines([UInt8])
        /// There is another file to write to.
        case redirected
        case stop
    }

    /// Where lines go.
    private struct Output: Sendable {
        let descriptor: Int32
        let destination: Destination
        /// A file takes any amount at once; a pipe or terminal as much as it is ready for.
        let isFile: Bool

        init(_ destination: Destination) throws(EventLoopError) {
            self.destination = destination
            switch destination {
            case .standardOutput: descriptor = STDOUT_FILENO
            case .standardError: descriptor = STDERR_FILENO
            case .file(let path):
                // Does not wait for somebody to read a pipe.
                descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o640)
                guard descriptor >= 0 else { throw .system(call: "open \(path)", errno: errno) }
            }
            var status = stat()
            isFile = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        }

        func close() {
            if case .file = destination { Glibc.close(descriptor) }
        }
    }

    private struct Outputs {
        var current: Output
        /// Takes its place before the next chunk is written.
        var next: Output?
    }

    private let mailbox: Mailbox<Message>
    private let dropped = Atomic<Int>(0)
    /// How many of them have been told of.
    private let told = Atomic<Int>(0)
    private let isStopping = Atomic<Bool>(false)
    /// Nobody reads while the process is to end: what is left is dropped.
    private let hasGivenUp = Atomic<Bool>(false)
    private let thread = Mutex<LoopThread?>(nil)
    private let outputs: Mutex<Outputs>

    /// Chunks of up to 32 KiB that may wait.
    private static let limit = 512

    package init(_ destination: Destination) throws(EventLoopError) {
        outputs = Mutex(Outputs(current: try Output(destination)))
        let mailbox = try Mailbox<Message>(limit: Self.limit)
        self.mailbox = mailbox
        let started = try LoopThread(name: "log") { [self] in
            // Without a loop there is no log; the process must not serve unlogged.
            guard let loop = try? Loop() else { fatalError("out of memory: the log's event loop") }
            let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] message in
                let output = current()
                switch message {
                case .lines(let lines): write(lines, to: output)
                case .redirected: break
                case .stop: loop.stop()
                }
            }
            withExtendedLifetime(receiver) { loop.run() }
            current().close()
        }
        thread.withLock { $0 = started }
    }

    package func post(_ lines: [UInt8]) {
        if !mailbox.post(.lines(lines)) { dropped.add(1, ordering: .relaxed) }
    }

    /// Whether chunks were dropped since this was asked last: one of all workers tells of them.
    func takesNews() -> Bool {
        let total = droppedInAll
        return told.exchange(total, ordering: .relaxed) < total
    }

    /// How many chunks were dropped since the process began.
    package var droppedInAll: Int { dropped.load(ordering: .relaxed) }

    /// Writes what waits, as far as it is taken, and ends the thread.
    package func stop() {
        isStopping.store(true, ordering: .relaxed)
        while !mailbox.post(.stop) { usleep(1_000) }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - Another file

    /// Writes to another file from the next chunk on; no line is lost, doubled or divided between the two.
    ///
    /// - Throws: if it cannot be opened; nothing changes then.
    package func redirect(to destination: Destination) throws(EventLoopError) {
        let opened = try Output(destination)
        outputs.withLock { outputs in
            // One that was never written to.
            outputs.next?.close()
            outputs.next = opened
        }
        // So that the old file is let go of at once. A full mailbox says that the next chunk is about to be written.
        mailbox.post(.redirected)
    }

    /// Opens the file anew under its name, after somebody has moved it away.
    ///
    /// - Returns: false if lines go to no file.
    package func reopen() throws(EventLoopError) -> Bool {
        let latest = outputs.withLock { ($0.next ?? $0.current).destination }
        guard case .file = latest else { return false }
        try redirect(to: latest)
        return true
    }

    /// On the writer's thread.
    private func current() -> Output {
        outputs.withLock { outputs in
            if let next = outputs.next.take() {
                outputs.current.close()
                outputs.current = next
            }
            return outputs.current
        }
    }

    // MARK: - Writing

    /// Waits for room rather than blocking in the write: a reader that has stopped reading must not keep the process from
    /// ending. Lines that cannot be written are counted.
    private func write(_ lines: [UInt8], to output: Output) {
        var written = 0
        while written < lines.count {
            guard !hasGivenUp.load(ordering: .relaxed) else { return lost() }
            var part = lines.count - written
            if !output.isFile {
                var readiness = pollfd(fd: output.descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&readiness, 1, Self.pollInterval) > 0 else {
                    if isStopping.load(ordering: .relaxed) { hasGivenUp.store(true, ordering: .relaxed) }
                    continue
                }
                // What a pipe is ready for is at least this much.
                part = min(part, Int(PIPE_BUF))
            }
            let count = lines.withUnsafeBytes {
                Glibc.write(output.descriptor, $0.baseAddress.map { $0 + written }, part)
            }
            if count > 0 { written += count } else if errno != EINTR && errno != EAGAIN { return lost() }
        }
    }

    private func lost() { dropped.add(1, ordering: .relaxed) }

    /// Milliseconds.
    private static let pollInterval: Int32 = 500
}
