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

    /// A change in the state of writing, reported once: it begins to fail, or a whole chunk is written again.
    package enum Transition: Equatable, Sendable {
        case failed(errno: Int32)
        case recovered
    }

    private enum Message: Sendable {
        case lines([UInt8])
        /// There is another file to write to.
        case redirected
        case stop
    }

    private struct Outputs {
        var current: LogOutput
        /// Takes its place before the next chunk is written.
        var next: LogOutput?
    }

    private let mailbox: Mailbox<Message>
    private let dropped = Atomic<Int>(0)
    /// How many of them have been reported.
    private let reported = Atomic<Int>(0)
    private let isStopping = Atomic<Bool>(false)
    /// Nobody reads while the process is to end: what is left is dropped.
    private let hasGivenUp = Atomic<Bool>(false)
    private let thread = Mutex<LoopThread?>(nil)
    private let outputs: Mutex<Outputs>

    /// Called on the writer's thread, so it must not wait for this log.
    private let observe: @Sendable (Transition) -> Void
    private let isFailing = Atomic<Bool>(false)

    private let waiting = Atomic<Int>(0)
    /// Blocks that have been written, to be filled again.
    private let spares = Mutex<[[UInt8]]>([])

    /// Octets that make a block of an access log full. Each is one write and one waking of this thread.
    static let blockSize = 128 * 1024
    /// With room for the line that fills it, unless that is a long one.
    static let blockRoom = blockSize + 4_096
    /// Octets that may wait.
    private static let limit = 16 * 1024 * 1024
    /// The same for messages, however short.
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
            // Without a loop there is no log; the process must not serve unlogged.
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

    /// Posts a block without copying it, and leaves an empty one in its place.
    func exchange(_ block: inout [UInt8]) {
        var other = spares.withLock { $0.popLast() } ?? []
        // Should the thread not have let go of it yet, this makes another.
        other.removeAll(keepingCapacity: true)
        other.reserveCapacity(Self.blockRoom)
        swap(&block, &other)
        post(other)
    }

    private func keep(_ block: [UInt8]) {
        guard block.capacity >= Self.blockRoom else { return }
        spares.withLock { if $0.count < Self.spareLimit { $0.append(block) } }
    }

    /// Whether so much waits that only full blocks should be posted.
    var isBehind: Bool { waitingOctets > Self.limit / 4 }

    /// Octets of memory in what was posted and is not written yet.
    var waitingOctets: Int { waiting.load(ordering: .relaxed) }

    /// Whether chunks were dropped since this was asked last: one of all workers tells of them.
    func takesNews() -> Bool {
        let total = droppedInAll
        return reported.exchange(total, ordering: .relaxed) < total
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
        let opened = try LogOutput(destination)
        outputs.withLock { outputs in
            // One that was never written to.
            outputs.next?.close()
            outputs.next = opened
        }
        // So that the old file is let go of at once. A full mailbox says that the next chunk is about to be written.
        mailbox.post(.redirected)
    }

    /// Reopens the file under its name, after somebody has moved it away.
    ///
    /// - Returns: false if lines go to no file.
    package func reopen() throws(EventLoopError) -> Bool {
        let latest = outputs.withLock { ($0.next ?? $0.current).destination }
        guard case .file = latest else { return false }
        try redirect(to: latest)
        return true
    }

    /// On the writer's thread.
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
            // A line that was cut short takes no other with it: those that follow begin afresh.
            if !output.isTorn || put(Self.lineEnd[...], to: output) == 1 {
                if output.isTorn { markTorn(false) }
                let written = put(rest, to: output)
                rest = rest.dropFirst(written)
                if rest.isEmpty { return tellRecovery() }
                markTorn(rest.startIndex > lines.startIndex && lines[rest.startIndex - 1] != Self.lineEnd[0])
            }
            // What this one does not take, another does that has been opened in its place: from the beginning of the line on.
            guard hasNext else { return lost() }
            let lastEnd = lines[..<rest.startIndex].lastIndex(of: Self.lineEnd[0])
            rest = lines[(lastEnd.map { $0 + 1 } ?? lines.startIndex)...]
            output = current()
        }
    }

    /// Waits for room rather than blocking in the write: a reader that has stopped reading must keep neither the process from
    /// ending nor lines from another output.
    ///
    /// - Returns: how much could be written.
    private func put(_ lines: ArraySlice<UInt8>, to output: LogOutput) -> Int {
        var written = 0
        while written < lines.count {
            guard !hasGivenUp.load(ordering: .relaxed) else { return written }
            var part = lines.count - written
            if !output.isFile {
                var readiness = pollfd(fd: output.descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&readiness, 1, Self.pollInterval) > 0 else {
                    if isStopping.load(ordering: .relaxed) { hasGivenUp.store(true, ordering: .relaxed) }
                    // `reopen` has reported to its caller that the new file is in use.
                    if hasNext { return written }
                    continue
                }
                // What a pipe is ready for is at least this much.
                part = min(part, Int(PIPE_BUF))
            }
            let count = lines.withUnsafeBytes {
                Glibc.write(output.descriptor, $0.baseAddress.map { $0 + written }, part)
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

    /// On the writer's thread, the only one that changes which output is the current.
    private func markTorn(_ isTorn: Bool) { outputs.withLock { $0.current.isTorn = isTorn } }

    /// Lines are counted that could not be written.
    func lost() { dropped.add(1, ordering: .relaxed) }

    private static let lineEnd = [UInt8(ascii: "\n")]
    /// Milliseconds.
    private static let pollInterval: Int32 = 500
}
