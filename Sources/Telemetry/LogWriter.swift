package import EventLoop
internal import Glibc
internal import Synchronization

/// The writer of log lines to a file, standard output or standard error, with its own thread. A slow disk or pipe delays
/// no request.
///
/// Its memory is limited. Above the limit it drops blocks and counts them, and the count is logged later.
package final class LogWriter: Sendable {
    package enum Destination: Equatable, Sendable {
        case standardOutput
        case standardError
        /// The file is created if it does not exist. Lines are appended.
        case file(String)
    }

    /// A change that is reported once: writing begins to fail, or a complete block is written again.
    package enum Transition: Equatable, Sendable {
        case failed(errno: Int32)
        case recovered
    }

    private enum Message: Sendable {
        case lines([UInt8])
        /// The destination has changed.
        case redirected
        case stop
    }

    private struct Outputs {
        var current: LogOutput
        /// The output that replaces `current` before the next block is written.
        var next: LogOutput?
    }

    private let mailbox: Mailbox<Message>
    private let dropped = Atomic<Int>(0)
    /// The part of `dropped` that has been reported.
    private let reported = Atomic<Int>(0)
    private let isStopping = Atomic<Bool>(false)
    /// Whether the process ends and nobody reads the output. The remaining lines are dropped.
    private let hasGivenUp = Atomic<Bool>(false)
    private let thread = Mutex<LoopThread?>(nil)
    private let outputs: Mutex<Outputs>

    /// Called on the writer's thread. It must not wait for this log.
    private let observe: @Sendable (Transition) -> Void
    private let isFailing = Atomic<Bool>(false)

    private let waiting = Atomic<Int>(0)
    /// Written blocks for reuse.
    private let spares = Mutex<[[UInt8]]>([])

    /// Size in bytes at which a block of an access log is full. A block is one write, and wakes the thread once.
    package static let blockSize = 128 * 1024
    /// Capacity of a block in bytes: it includes the line that fills the block, unless that line is long.
    package static let blockRoom = blockSize + 4_096
    /// Limit of waiting lines in bytes.
    private static let limit = 16 * 1024 * 1024
    /// Limit of waiting messages of any size.
    private static let messageLimit = 4_096
    private static let spareLimit = 4

    package init(_ destination: Destination, observe: @escaping @Sendable (Transition) -> Void = { _ in })
        throws(EventLoopError)
    {
        self.observe = observe
        var output = try LogOutput(destination)
        output.lookAtEnd()
        outputs = Mutex(Outputs(current: output))
        let mailbox = try Mailbox<Message>(limit: Self.messageLimit)
        self.mailbox = mailbox
        let started = try LoopThread(name: "log") { [self] in
            // The gateway must not serve without a log, and there is none without a loop.
            guard let loop = try? Loop() else { fatalError("out of memory: the event loop of the log") }
            let receiver = MailboxReceiver(loop: loop, mailbox: mailbox) { [self] message in
                let output = current()
                switch message {
                case .lines(let lines):
                    write(lines, to: output)
                    waiting.subtract(lines.capacity, ordering: .relaxed)
                    keep(lines)
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
        let memory = lines.capacity
        let before = waiting.add(memory, ordering: .relaxed).oldValue
        if before <= Self.limit - memory, mailbox.post(.lines(lines)) { return }
        waiting.subtract(memory, ordering: .relaxed)
        lost()
    }

    /// Posts a block without a copy, and leaves an empty one in its place.
    package func exchange(_ block: inout [UInt8]) {
        var other = spares.withLock { $0.popLast() } ?? []
        // This copies the block if the thread still refers to it.
        other.removeAll(keepingCapacity: true)
        other.reserveCapacity(Self.blockRoom)
        swap(&block, &other)
        post(other)
    }

    private func keep(_ block: [UInt8]) {
        guard block.capacity >= Self.blockRoom else { return }
        spares.withLock { if $0.count < Self.spareLimit { $0.append(block) } }
    }

    /// Whether so many lines wait that only full blocks should be posted.
    package var isBehind: Bool { waitingBytes > Self.limit / 4 }

    /// The memory of posted and unwritten lines in bytes.
    package var waitingBytes: Int { waiting.load(ordering: .relaxed) }

    /// Returns whether blocks were dropped since the last call. The worker that receives `true` logs the count.
    package func takesNews() -> Bool {
        let total = droppedInAll
        return reported.exchange(total, ordering: .relaxed) < total
    }

    /// The number of blocks dropped since the start of the process.
    package var droppedInAll: Int { dropped.load(ordering: .relaxed) }

    /// Writes the waiting lines as far as the output accepts them, and ends the thread.
    package func stop() {
        isStopping.store(true, ordering: .relaxed)
        while !mailbox.post(.stop) { usleep(1_000) }
        thread.withLock { $0.take() }?.join()
    }

    // MARK: - Change of the destination

    /// Writes to another destination from the next block on. No line is lost, repeated or divided between the two.
    ///
    /// - Throws: An error of the system if it cannot be opened. Nothing changes then.
    package func redirect(to destination: Destination) throws(EventLoopError) {
        let opened = try LogOutput(destination)
        outputs.withLock { outputs in
            // Nothing was written to this one.
            outputs.next?.close()
            outputs.next = opened
        }
        // The old file is closed at once. If the mailbox is full, this happens before the next block.
        mailbox.post(.redirected)
    }

    /// Opens the file again by its name, after it was moved.
    ///
    /// - Returns: false if the destination is no file.
    package func reopen() throws(EventLoopError) -> Bool {
        let latest = outputs.withLock { ($0.next ?? $0.current).destination }
        guard case .file = latest else { return false }
        try redirect(to: latest)
        return true
    }

    /// Returns the present output. It is called on the writer's thread.
    private func current() -> LogOutput {
        outputs.withLock { outputs in
            if var next = outputs.next.take() {
                outputs.current.close()
                next.lookAtEnd()
                outputs.current = next
            }
            return outputs.current
        }
    }

    // MARK: - Writing

    private func write(_ lines: [UInt8], to output: LogOutput) {
        var output = output
        var rest = lines[...]
        while true {
            // The next line must not continue one that was cut.
            if !output.isTorn || put(Self.lineEnd[...], to: output) == 1 {
                if output.isTorn { markTorn(false) }
                let written = put(rest, to: output)
                rest = rest.dropFirst(written)
                if rest.isEmpty { return tellRecovery() }
                markTorn(rest.startIndex > lines.startIndex && lines[rest.startIndex - 1] != Self.lineEnd[0])
            }
            // If this output fails, the rest is written to its successor, from the beginning of the line.
            guard hasNext else { return lost() }
            let lastEnd = lines[..<rest.startIndex].lastIndex(of: Self.lineEnd[0])
            rest = lines[(lastEnd.map { $0 + 1 } ?? lines.startIndex)...]
            output = current()
        }
    }

    /// Writes lines to an output. It waits for room before it writes: if nobody reads the output, the process must still
    /// end, and another output must still get its lines.
    ///
    /// - Returns: The number of written bytes.
    private func put(_ lines: ArraySlice<UInt8>, to output: LogOutput) -> Int {
        var written = 0
        while written < lines.count {
            guard !hasGivenUp.load(ordering: .relaxed) else { return written }
            var part = lines.count - written
            if !output.isFile {
                var readiness = pollfd(fd: output.descriptor, events: Int16(POLLOUT), revents: 0)
                guard unsafe poll(&readiness, 1, Self.pollInterval) > 0 else {
                    if isStopping.load(ordering: .relaxed) { hasGivenUp.store(true, ordering: .relaxed) }
                    // `reopen` has reported to its caller that the new file is in use.
                    if hasNext { return written }
                    continue
                }
                // A pipe that is ready accepts at least this number of bytes.
                part = min(part, Int(PIPE_BUF))
            }
            let count = unsafe lines.withUnsafeBytes {
                unsafe Glibc.write(output.descriptor, $0.baseAddress.map { unsafe $0 + written }, part)
            }
            if count > 0 {
                written += count
            } else if errno != EINTR && errno != EAGAIN {
                tellFailure(errno)
                return written
            }
        }
        return written
    }

    private func tellFailure(_ reason: Int32) {
        guard !isFailing.exchange(true, ordering: .relaxed) else { return }
        observe(.failed(errno: reason))
    }

    private func tellRecovery() {
        guard isFailing.exchange(false, ordering: .relaxed) else { return }
        observe(.recovered)
    }

    private var hasNext: Bool { outputs.withLock { $0.next != nil } }

    /// It is called on the writer's thread, the only one that changes `current`.
    private func markTorn(_ isTorn: Bool) { outputs.withLock { $0.current.isTorn = isTorn } }

    /// Counts a block or line that could not be written.
    package func lost() { dropped.add(1, ordering: .relaxed) }

    private static let lineEnd = [UInt8(ascii: "\n")]
    /// In milliseconds.
    private static let pollInterval: Int32 = 500
}

/// An open destination of log lines.
struct LogOutput: Sendable {
    let descriptor: Int32
    let destination: LogWriter.Destination
    /// Whether it is a file, which accepts any number of bytes. A pipe or terminal accepts a part.
    let isFile: Bool
    /// Whether the last line has no end because the disk was full.
    var isTorn = false

    init(_ destination: LogWriter.Destination) throws(EventLoopError) {
        self.destination = destination
        switch destination {
        case .standardOutput: descriptor = STDOUT_FILENO
        case .standardError: descriptor = STDERR_FILENO
        case .file(let path):
            // Does not wait for the reader of a pipe.
            descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0o640)
            guard descriptor >= 0 else { throw .system(call: "open \(path)", errno: errno) }
        }
        var status = stat()
        isFile = (unsafe fstat(descriptor, &status)) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    func close() {
        if case .file = destination { Glibc.close(descriptor) }
    }

    /// Reads whether an earlier process ended in the middle of a line. Nothing may be written meanwhile.
    mutating func lookAtEnd() {
        guard case .file(let path) = destination, isFile else { return }
        let reading = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        // A file that cannot be read is assumed to end with a complete line.
        guard reading >= 0 else { return }
        defer { Glibc.close(reading) }
        var byte: UInt8 = 0
        let size = lseek(reading, 0, SEEK_END)
        isTorn = size > 0 && (unsafe pread(reading, &byte, 1, size - 1)) == 1 && byte != UInt8(ascii: "\n")
    }
}
