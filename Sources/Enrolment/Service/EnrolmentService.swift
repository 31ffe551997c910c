public import Bytes
public import Cryptography
public import EventLoop
public import Registry
internal import Glibc
public import Telemetry

/// The service of the enrolment endpoints, with its own thread. It shares neither loop nor library context with the
/// workers, because it verifies attestations and holds the CA's key.
///
/// The caller passes listening sockets and receives reports about commands on the service's thread. Settings change in
/// two steps, as in workers: `prepare` creates everything and can fail, `adopt` cannot.
public final class EnrolmentService: Sendable {
    public enum Report: Equatable, Sendable {
        case serving
        /// New settings are prepared.
        ///
        /// - fault: The reason of a failure, or nil.
        case prepared(fault: String?)
        case adopted
        case pong
        /// Descriptors by the listeners' names, which the receiver owns. Nil if there are not enough left.
        case duplicated([String: Int32]?)
        /// A failure that no request reports, for the log.
        case failed(String)
        /// A result of work that no phone asked for, for the log.
        case notice(EnrolmentNotice)
        case ended
    }

    enum Command: Sendable {
        case prepare(EnrolmentSettings, sockets: [String: Int32])
        case adopt
        case discard
        case ping
        case duplicateSockets
        case drain
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let thread: LoopThread
    private let counts: EnrolmentCounts

    /// Starts the thread. A report follows when it serves.
    ///
    /// - Parameters:
    ///   - settings: Settings that `check` has accepted.
    ///   - sockets: Descriptors of listening sockets by the listeners' names. Takes ownership.
    ///   - memory: The budget of the process.
    ///   - audit: Receives each decision, on the service's thread.
    ///   - report: Called on the service's thread.
    ///   - failed: Called on that thread if it cannot begin, because memory or descriptors are exhausted.
    public init(
        _ settings: EnrolmentSettings, sockets: [String: Int32], registry: DeviceRegistry, memory: MemoryBudget,
        audit: @escaping @Sendable (EnrolmentDecision) -> Void, report: @escaping @Sendable (Report) -> Void,
        failed: @escaping @Sendable (String) -> Void
    ) throws(EventLoopError) {
        let mailbox = try Mailbox<Command>(limit: 64)
        let counts = EnrolmentCounts()
        self.mailbox = mailbox
        self.counts = counts
        thread = try LoopThread(name: "enrolment") {
            do {
                try EnrolmentThread(
                    settings, sockets: sockets, registry: registry, memory: memory, counts: counts, audit: audit,
                    report: report
                ).run(mailbox)
            } catch {
                failed("\(error)")
            }
        }
    }

    /// Checks settings by building everything except the service itself.
    ///
    /// - Parameter library: A context of the calling thread.
    public static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        try EnrolmentGeneration.check(settings, library)
    }

    /// Prepares other settings. `Report.prepared` follows.
    ///
    /// - Parameter sockets: Sockets of new listeners by their names. Takes ownership.
    public func prepare(_ settings: EnrolmentSettings, sockets: [String: Int32]) {
        post(.prepare(settings, sockets: sockets))
    }

    /// Serves the prepared settings. Open connections keep the settings under which they were accepted.
    public func adopt() { post(.adopt) }

    /// Discards the prepared settings.
    public func discard() { post(.discard) }

    /// Tests the loop. `Report.pong` follows.
    public func ping() { post(.ping) }

    /// Requests duplicate descriptors of the listening sockets, for another process or service. A report follows.
    public func duplicateSockets() { post(.duplicateSockets) }

    /// Stops accepting, lets requests finish, then ends.
    public func drain() { post(.drain) }

    /// Ends at once.
    public func stop() { post(.stop) }

    /// Posts a command. None is lost: those with an answer are sent again only after it, and all others are sent once.
    /// Thus only a few wait, even if the thread stands still.
    private func post(_ command: Command) {
        let isTaken = mailbox.post(command)
        precondition(isTaken, "enrolment received more replies than it expects")
    }

    /// Waits until the thread has ended.
    public func join() { thread.join() }

    /// The metrics for a scrape. May be read by any thread.
    public var families: [MetricFamily] { counts.current.families }

    /// The counts of receipt refreshes. Nil if there are none. May be read by any thread.
    public var receipts: ReceiptMetrics? { counts.current.receipts }

    /// The state of the status list. Nil if nothing demands it. May be read by any thread.
    public var statusList: FetchMetrics? { counts.current.statusList }
    /// The state of the keys of admission tokens. Nil if none are fetched.
    public var issuerKeys: FetchMetrics? { counts.current.issuerKeys }
}
