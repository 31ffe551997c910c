public import Cryptography
public import EventLoop
public import Metrics
public import Registry
internal import Glibc
internal import Synchronization

/// The enrolment endpoints, served by a thread of their own: what verifies attestations and holds the CA's key shares
/// neither loop nor library context with the workers.
///
/// The caller hands over listening sockets and receives reports, on the service's thread, on how each command ended.
/// Settings change in two steps, as those of the workers do: `prepare` makes everything and can fail, `adopt` cannot.
public final class EnrolmentService: Sendable {
    public enum Report: Equatable, Sendable {
        case serving
        /// - fault: why the settings could not be made ready; nil if they are.
        case prepared(fault: String?)
        case adopted
        case pong
        /// Descriptors by the listeners' names; the receiver owns them. Nil if there are not enough left.
        case duplicated([String: Int32]?)
        /// Something failed that no request is answered by; for the log.
        case failed(String)
        /// What came of a device's receipt; for the log.
        case receipt(ReceiptNotice)
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

    /// Starts the thread. It serves when it has reported so.
    ///
    /// - Parameters:
    ///   - settings: which `check` has found right.
    ///   - sockets: descriptors of listening sockets by the listeners' names; taken over.
    ///   - audit: receives each decision, on the service's thread.
    ///   - report: called on the service's thread.
    ///   - failed: called on that thread if it cannot begin, which is for want of memory or descriptors.
    public init(
        _ settings: EnrolmentSettings, sockets: [String: Int32], registry: DeviceRegistry,
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
                    settings, sockets: sockets, registry: registry, counts: counts, audit: audit, report: report
                ).run(mailbox)
            } catch {
                failed("\(error)")
            }
        }
    }

    /// Finds what is wrong with settings, without serving anything: builds all that a service would be made of.
    ///
    /// - Parameter library: of the calling thread.
    public static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        try EnrolmentGeneration.check(settings, library)
    }

    /// Makes other settings ready. `Report.prepared` follows.
    ///
    /// - Parameter sockets: of the listeners that are new, by their names; taken over.
    public func prepare(_ settings: EnrolmentSettings, sockets: [String: Int32]) {
        tell(.prepare(settings, sockets: sockets))
    }

    /// Serves what was prepared. Connections that are open finish by the settings they came in under.
    public func adopt() { tell(.adopt) }

    /// Drops what was prepared.
    public func discard() { tell(.discard) }

    /// `Report.pong` follows if the loop goes round.
    public func ping() { tell(.ping) }

    /// A report follows, with a duplicate descriptor of each listening socket: for another process, or for another
    /// service.
    public func duplicateSockets() { tell(.duplicateSockets) }

    /// Accepts no more, lets requests finish, then ends.
    public func drain() { tell(.drain) }

    /// Ends now.
    public func stop() { tell(.stop) }

    /// No command is lost. A command that is answered (settings to be prepared, a ping) is sent again only after its
    /// answer, and all others are sent once: so no more than a few wait, however long the thread stands still.
    private func tell(_ command: Command) {
        let isTaken = mailbox.post(command)
        precondition(isTaken, "enrolment received more replies than it expects")
    }

    /// Waits until the thread has ended.
    public func join() { thread.join() }

    /// For a scrape; any thread.
    public var families: [MetricFamily] { counts.current.families }

    /// How it goes with newer receipts; nil if nobody is asked for any. Any thread.
    public var receipts: ReceiptMetrics? { counts.current.receipts }
}

/// Why enrolment cannot be served by some settings.
public struct EnrolmentStartError: Error, Equatable, CustomStringConvertible {
    /// For people.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}
