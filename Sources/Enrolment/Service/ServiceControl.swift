package import Bytes
package import EventLoop
package import Registry

/// A report of a service about a command, or about its work.
public enum ServiceReport: Equatable, Sendable {
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

/// The commands to a service with a thread of its own, whatever its settings are.
public protocol RunningService: Sendable {
    /// Serves the prepared settings. Open connections keep the settings under which they were accepted.
    func adopt()
    /// Discards the prepared settings.
    func discard()
    /// Tests the loop. `ServiceReport.pong` follows.
    func ping()
    /// Requests duplicate descriptors of the listening sockets, for another process or service. A report follows.
    func duplicateSockets()
    /// Stops accepting, lets requests finish, then ends.
    func drain()
    /// Ends at once.
    func stop()
    /// Waits until the thread has ended.
    func join()
}

/// The thread of a service, and the commands to it.
///
/// Settings change in two steps, as in workers: `prepare` creates everything and can fail, `adopt` cannot.
public final class ServiceControl<Settings: Sendable>: RunningService {
    enum Command: Sendable {
        case prepare(Settings, sockets: [String: Int32])
        case adopt
        case discard
        case ping
        case duplicateSockets
        case drain
        case stop
    }

    private let mailbox: Mailbox<Command>
    private let thread: LoopThread

    /// Starts the thread. A report follows when it serves.
    ///
    /// - Parameters:
    ///   - name: The service in messages, and the thread's name.
    ///   - sockets: Descriptors of listening sockets by the listeners' names. Takes ownership.
    ///   - memory: The budget of the process.
    ///   - report: Called on the service's thread.
    ///   - failed: Called on that thread if it cannot begin, because memory or descriptors are exhausted.
    ///   - make: Returns the maker of generations, on that thread.
    package init(
        _ name: StaticString, _ settings: Settings, sockets: [String: Int32], registry: DeviceRegistry,
        memory: MemoryBudget, report: @escaping @Sendable (ServiceReport) -> Void,
        failed: @escaping @Sendable (String) -> Void,
        make: @escaping @Sendable (ServiceResources) throws -> (Settings, StoreIdentity) throws -> any ServiceGeneration
    ) throws(EventLoopError) {
        let mailbox = try Mailbox<Command>(limit: 64)
        self.mailbox = mailbox
        thread = try LoopThread(name: "\(name)") {
            do {
                try ServiceThread(
                    "\(name)", settings, sockets: sockets, registry: registry, memory: memory, report: report,
                    make: make
                ).run(mailbox)
            } catch {
                failed("\(error)")
            }
        }
    }

    /// Prepares other settings. `ServiceReport.prepared` follows.
    ///
    /// - Parameter sockets: Sockets of new listeners by their names. Takes ownership.
    public func prepare(_ settings: Settings, sockets: [String: Int32]) { post(.prepare(settings, sockets: sockets)) }

    public func adopt() { post(.adopt) }
    public func discard() { post(.discard) }
    public func ping() { post(.ping) }
    public func duplicateSockets() { post(.duplicateSockets) }
    public func drain() { post(.drain) }
    public func stop() { post(.stop) }

    /// Posts a command. None is lost: those with an answer are sent again only after it, and all others are sent once.
    /// Thus only a few wait, even if the thread stands still.
    private func post(_ command: Command) {
        let isTaken = mailbox.post(command)
        precondition(isTaken, "a service received more replies than it expects")
    }

    public func join() { thread.join() }
}
