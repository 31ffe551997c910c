internal import CLinux
internal import EventLoop
internal import Glibc

/// What a process inherits from its parent: listening sockets and, if it takes over from another gateway, the channel
/// to it.
public final class Inheritance {
    /// Nil if there are none.
    private(set) var sockets: InheritedSockets?
    /// The channel to the process that this one takes over from; nil if there is none. Its owner is `Takeover`.
    let predecessor: Int32?
    /// The sockets through which that process, and those before it, ask for look-ups once it has released its registry.
    private var querySockets: [Int32]

    private init(sockets: InheritedSockets?, predecessor: Int32?, querySockets: [Int32] = []) {
        self.sockets = sockets
        self.predecessor = predecessor
        self.querySockets = querySockets
    }

    /// Returns the sockets of predecessors' queries, once. The caller owns them.
    func takeQuerySockets() -> [Int32] {
        defer { querySockets = [] }
        return querySockets
    }

    /// Closes the sockets that were not used.
    func closeSockets() {
        sockets = nil
        for socket in takeQuerySockets() { close(socket) }
    }

    /// Whether this process takes over from another one.
    public var takesOver: Bool { predecessor != nil }

    /// Reports to the predecessor, if there is one, why this process will not serve: the predecessor has a log, and
    /// an operator who waits for the answer. Called only without a `GatewayProcess`, which would own the channel.
    public func tellFailure(_ reason: String) {
        guard let predecessor else { return }
        UpgradeChannel.tell(.failed(reason: reason), through: predecessor)
    }

    public static var none: Inheritance { Inheritance(sockets: nil, predecessor: nil) }

    /// The variable that a gateway sets for its successor: `first COUNT`, then `second COUNT`. Descriptor 3 is the
    /// channel between them, and COUNT listening sockets follow it.
    static let variable = "ATTESTGATE_TAKE_OVER"
    /// The variable with the numbers of the descriptors for queries to the registry, with commas between. Older
    /// gateways ignore it.
    static let queriesVariable = "ATTESTGATE_REGISTRY_QUERIES"
    static let firstDescriptor: Int32 = 3

    /// Reads the environment and removes the variables. Called once, before anything else is opened.
    ///
    /// The process that an upgrade starts is not the one that serves: it starts that one and ends. So the serving
    /// process is adopted by the service manager, and is not a child of the gateway that is about to end. systemd
    /// is notified of the end of its own children only.
    public static func take() throws(StartupError) -> Inheritance {
        if let text = variable(variable) {
            unsetenv(variable)
            let words = text.split(separator: " ")
            guard words.count == 2, let count = Int32(words[1]), (0...4096).contains(count) else {
                throw StartupError("\(variable) is set only by a gateway and has an invalid value: \(text)")
            }
            let list = self.variable(queriesVariable)
            unsetenv(queriesVariable)
            guard words[0] == "second" else {
                let settings = ["\(variable)=second \(count)"] + (list.map { ["\(queriesVariable)=\($0)"] } ?? [])
                let process = Successor.spawn(CommandLine.arguments, settings: settings, descriptors: nil)
                guard let process else { _exit(1) }
                UpgradeChannel.tell(.started(process: process), through: firstDescriptor)
                _exit(0)
            }
            _ = fcntl(firstDescriptor, F_SETFD, FD_CLOEXEC)
            let querySockets = list?.split(separator: ",").compactMap { Int32($0) } ?? []
            for descriptor in querySockets { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
            return Inheritance(
                sockets: try sockets(from: firstDescriptor + 1, count: count), predecessor: firstDescriptor,
                querySockets: querySockets)
        }
        // sd_listen_fds(3): only if the sockets are for this process.
        guard let count = variable("LISTEN_FDS").flatMap({ Int32($0) }), count > 0, count < 4096,
            variable("LISTEN_PID").flatMap({ Int32($0) }) == getpid()
        else { return .none }
        for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] { unsetenv(name) }
        return Inheritance(sockets: try sockets(from: firstDescriptor, count: count), predecessor: nil)
    }

    private static func sockets(from first: Int32, count: Int32) throws(StartupError) -> InheritedSockets {
        do throws(EventLoopError) { return try InheritedSockets(first..<(first + count)) } catch {
            throw StartupError("an inherited descriptor is not a listening socket: \(error.text)")
        }
    }

    private static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}

/// Starts the program that takes over.
enum Successor {
    /// Variables that the new process does not inherit: they name the process that the service manager watches, and
    /// the sockets of this process.
    private static let dropped = [
        "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", Inheritance.variable,
        Inheritance.queriesVariable,
    ]

    /// Starts a program with the given descriptors and the standard ones.
    ///
    /// - Parameters:
    ///   - command: The program's path and its arguments.
    ///   - settings: Variables of its environment, `NAME=VALUE`.
    ///   - descriptors: Its descriptors from 3 on, in this order; nil for those that this process has there.
    /// - Returns: Its process; nil if it could not be started, with the reason in `errno`.
    static func spawn(_ command: [String], settings: [String], descriptors: [Int32]?) -> pid_t? {
        guard let program = command.first else { return nil }
        let first = Inheritance.firstDescriptor
        // Above all numbers of the new process, so that none is overwritten before it is copied.
        let copies = (descriptors ?? []).map { fcntl($0, F_DUPFD_CLOEXEC, first + Int32(descriptors?.count ?? 0)) }
        defer { for copy in copies where copy >= 0 { close(copy) } }
        guard copies.allSatisfy({ $0 >= 0 }) else { return nil }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if descriptors != nil {
            for (number, copy) in copies.enumerated() {
                posix_spawn_file_actions_adddup2(&actions, copy, first + Int32(number))
            }
            ag_spawn_closefrom(&actions, first + Int32(copies.count))
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The new process must not inherit ignored or blocked signals.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

        var process = pid_t()
        let status = withTexts(command) { arguments in
            withTexts(environment + settings) { posix_spawn(&process, program, &actions, &attributes, arguments, $0) }
        }
        errno = status
        return status == 0 ? process : nil
    }

    private static var environment: [String] {
        var texts: [String] = []
        var next = environ
        while let text = next.pointee {
            let setting = String(cString: text)
            if !dropped.contains(where: { setting.hasPrefix($0 + "=") }) { texts.append(setting) }
            next += 1
        }
        return texts
    }

    /// Calls `body` with a C array of strings, which lives as long as the call.
    private static func withTexts<Result>(
        _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        let array = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: texts.count + 1)
        for (place, text) in texts.enumerated() { array[place] = strdup(text) }
        array[texts.count] = nil
        defer {
            for place in texts.indices { free(array[place]) }
            array.deallocate()
        }
        return body(array)
    }
}
