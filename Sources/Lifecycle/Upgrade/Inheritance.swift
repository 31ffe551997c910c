internal import EventLoop
internal import Glibc

/// What a process inherits from its parent: listening sockets and, if it takes over from another gateway, the channel
/// to it.
public final class Inheritance {
    /// Nil if there are none.
    private(set) var sockets: InheritedSockets?
    /// The way to the process that this one takes over from; nil if there is none. Its owner is `GatewayProcess`.
    let predecessor: Int32?

    private init(sockets: InheritedSockets?, predecessor: Int32?) {
        self.sockets = sockets
        self.predecessor = predecessor
    }

    /// Closes the sockets that nobody has taken.
    func closeSockets() { sockets = nil }

    /// Whether this process takes over from another one.
    public var takesOver: Bool { predecessor != nil }

    /// Says why this process will not serve, to the one that it was to take over from, if there is one: that has a log, and an
    /// operator who waits for its answer. To be called before the process that is to serve has begun, or after it has been given up.
    public func tellFailure(_ reason: String) {
        guard let predecessor else { return }
        UpgradeChannel.tell(.failed(reason: reason), through: predecessor)
    }

    public static var none: Inheritance { Inheritance(sockets: nil, predecessor: nil) }

    /// Set by a gateway for the one that it starts: `first COUNT`, then `second COUNT`. Descriptor 3 is the way between them, and as
    /// many as COUNT says follow it.
    static let variable = "ATTESTGATE_TAKE_OVER"
    static let firstDescriptor: Int32 = 3

    /// Reads what the environment says, and takes that out of it. To be called once, before anything else is opened.
    ///
    /// Of a gateway that takes over, the process that was started is not the one that serves: it starts that and ends, so that the one
    /// that serves is a child of whatever takes in orphans, a service manager, and not of the gateway that is about to end. systemd
    /// hears of the end of its own children only.
    public static func take() throws(StartupError) -> Inheritance {
        if let text = variable(variable) {
            unsetenv(variable)
            let words = text.split(separator: " ")
            guard words.count == 2, let count = Int32(words[1]), (0...4096).contains(count) else {
                throw StartupError("\(variable) is set only by a gateway and has an invalid value: \(text)")
            }
            guard words[0] == "second" else {
                let process = Successor.spawn(
                    CommandLine.arguments, setting: "\(variable)=second \(count)", descriptors: nil)
                guard let process else { _exit(1) }
                UpgradeChannel.tell(.started(process: process), through: firstDescriptor)
                _exit(0)
            }
            _ = fcntl(firstDescriptor, F_SETFD, FD_CLOEXEC)
            return Inheritance(
                sockets: try sockets(from: firstDescriptor + 1, count: count), predecessor: firstDescriptor)
        }
        // sd_listen_fds(3): for this process, or for none.
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
