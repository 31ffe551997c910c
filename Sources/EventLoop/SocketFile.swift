internal import Glibc

/// The file through which local processes reach a Unix socket. Its mode and owner say who can connect; by default only
/// this process's user and root.
///
/// Only one process serves a path: it holds `flock` on `PATH.lock` for as long as this object lives. So an existing
/// file was left by a process that is gone, and may be replaced. The kernel releases the lock however a process ends.
/// The lock file stays: after its removal, another process could lock a new file of the same name.
///
/// A process that replaces another one gets socket and lock from it. The lock then has two holders (flock(2)), and the
/// file belongs to the process that serves. A socket without a lock belongs to a service manager, and so does its file.
public final class SocketFile {
    private let path: String
    private let address: SocketAddress
    private let lock: Int32
    private var access: Access
    /// The identity of the file that `listen` created.
    private var made: Identity?
    /// The inherited socket, until `listen` returns it.
    private var inherited: Int32 = -1

    /// Who can connect: those with write permission on the file (unix(7)).
    public struct Access: Equatable, Sendable {
        public let mode: UInt32
        /// Nil for those of the process.
        public let owner: UInt32?
        public let group: UInt32?

        /// - Parameter mode: At most 0o777.
        public init(mode: UInt32 = 0o600, owner: UInt32? = nil, group: UInt32? = nil) {
            self.mode = mode
            self.owner = owner
            self.group = group
        }
    }

    private struct Identity: Equatable {
        let device: dev_t
        let node: ino_t

        init(_ status: stat) {
            device = status.st_dev
            node = status.st_ino
        }
    }

    /// Locks the path, and removes the file of a dead process.
    ///
    /// - Parameter sockets: the inherited sockets, which may include this one.
    public init(
        path: String, access: Access = Access(), inherited sockets: InheritedSockets? = nil
    ) throws(SocketFileError) {
        self.path = path
        self.access = access
        do throws(EventLoopError) {
            address = try SocketAddress(unixPath: path)
        } catch {
            throw .pathUnusable(path: path)
        }
        let name = path + ".lock"
        let given = sockets?.take(address) ?? []
        if let descriptor = given.first {
            for further in given.dropFirst() { close(further) }
            inherited = descriptor
            lock = sockets?.takeFile(name) ?? -1
            if lock >= 0 { made = Self.look(at: path)?.0 }
            return
        }
        // From here on `deinit` closes it, also when this initializer throws.
        lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw .failed(path: name, doing: "open", errno: errno) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            throw reason == EWOULDBLOCK ? .served(path: path) : .failed(path: name, doing: "lock", errno: reason)
        }
        try removeStale()
    }

    deinit {
        remove()
        if lock >= 0 { close(lock) }
        if inherited >= 0 { close(inherited) }
    }

    /// Whether this object holds the lock. It does not if the socket belongs to a service manager.
    public var isLocked: Bool { lock >= 0 }

    /// Returns a second descriptor of the lock, for the process that takes over.
    ///
    /// - Returns: nil if there is no lock or no free descriptor.
    public func duplicateLock() -> Int32? {
        guard lock >= 0 else { return nil }
        let duplicate = fcntl(lock, F_DUPFD_CLOEXEC, 0)
        return duplicate >= 0 ? duplicate : nil
    }

    /// Leaves the file to another process.
    public func giveAway() { made = nil }

    /// Creates the socket and its file, or returns the inherited socket. Call it once.
    public func listen(backlog: Int32 = 64) throws(SocketFileError) -> Socket {
        if inherited >= 0 {
            let socket = Socket(adopting: inherited)
            inherited = -1
            return socket
        }
        let socket = Socket(adopting: Glibc.socket(AF_UNIX, Self.type, 0))
        guard socket.number >= 0 else { throw failure("make a socket for") }
        // Linux gives the file the socket's mode at this moment, less the umask, so nobody else can ever reach it.
        guard fchmod(socket.number, 0o600) == 0 else { throw failure("set the mode of") }
        guard address.withSockaddr({ bind(socket.number, $0, $1) }) == 0 else { throw failure("bind") }
        guard let (identity, mode) = Self.look(at: path) else { throw failure("find") }
        made = identity
        guard mode == S_IFSOCK | 0o600 else {
            remove()
            throw .modeRefused(path: path)
        }
        do throws(SocketFileError) {
            try apply()
            guard Glibc.listen(socket.number, backlog) == 0 else { throw failure("listen on") }
        } catch {
            remove()
            throw error
        }
        return socket
    }

    /// Changes who can connect. Has no effect on the file of a service manager.
    public func admit(_ access: Access) throws(SocketFileError) {
        guard access != self.access else { return }
        self.access = access
        try apply()
    }

    private func apply() throws(SocketFileError) {
        guard let made else { return }
        // By a descriptor of the file itself: something else may be at the path, now or in a moment.
        let file = open(path, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
        guard file >= 0 else { throw failure("find") }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw failure("find") }
        guard Identity(status) == made, status.st_mode & S_IFMT == S_IFSOCK else { throw .replaced(path: path) }
        guard access != Access() || status.st_mode != S_IFSOCK | 0o600 else { return }
        // Nobody may connect by the new mode before the file has its new owner.
        let (owner, group) = (access.owner ?? .max, access.group ?? .max)
        guard owner == .max && group == .max || fchownat(file, "", owner, group, Self.ofDescriptor) == 0 else {
            throw failure("set the owner of")
        }
        // fchmod(2) takes no such descriptor; the link is to the file, wherever that is by now.
        guard chmod("/proc/self/fd/\(file)", access.mode) == 0 else { throw failure("set the mode of") }
    }

    /// O_PATH and AT_EMPTY_PATH, which Glibc declares for _GNU_SOURCE only.
    private static let (pathOnly, ofDescriptor): (Int32, Int32) = (0o10000000, 0x1000)

    private static let type =
        Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)

    /// Removes the file, unless it has been replaced. Repeated calls have no effect.
    public func remove() {
        guard let made else { return }
        self.made = nil
        if let (identity, _) = Self.look(at: path), identity == made { _ = unlink(path) }
    }

    private func removeStale() throws(SocketFileError) {
        guard let (_, mode) = Self.look(at: path) else { return }
        guard mode & S_IFMT == S_IFSOCK else { throw .noSocket(path: path) }
        // A program that ignores the lock may be listening.
        switch try attempt() {
        case 0, EAGAIN, EPROTOTYPE: throw .served(path: path)
        case ECONNREFUSED, ENOENT: break
        case let reason: throw .failed(path: path, doing: "connect to", errno: reason)
        }
        guard unlink(path) == 0 || errno == ENOENT else { throw failure("remove") }
    }

    /// Tries to connect to the path.
    ///
    /// - Returns: the error number, or 0 on success.
    private func attempt() throws(SocketFileError) -> Int32 {
        do throws(EventLoopError) {
            _ = try Socket.connect(to: address)
            return 0
        } catch {
            guard case .system(_, let reason) = error else { throw .pathUnusable(path: path) }
            return reason
        }
    }

    private static func look(at path: String) -> (Identity, mode: mode_t)? {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        return (Identity(status), status.st_mode)
    }

    private func failure(_ doing: String) -> SocketFileError { .failed(path: path, doing: doing, errno: errno) }
}

/// The reason why a path cannot be served.
public enum SocketFileError: Error, Equatable, Sendable {
    /// A path that is empty, longer than 107 bytes, or contains NUL.
    case pathUnusable(path: String)
    /// Another process, or another server of this one, listens there.
    case served(path: String)
    /// The existing file is no socket.
    case noSocket(path: String)
    /// The file system gives the file another mode than 0600.
    case modeRefused(path: String)
    /// Something else is at the path since.
    case replaced(path: String)
    /// A failed system call.
    case failed(path: String, doing: String, errno: Int32)
}

extension SocketFileError: CustomStringConvertible {
    /// The text for people.
    public var description: String {
        switch self {
        case .pathUnusable(let path): "'\(path)': the path of a socket must have 1 to 107 bytes"
        case .served(let path): "\(path): another process listens on it"
        case .noSocket(let path): "\(path): it exists and is not a socket"
        case .modeRefused(let path): "\(path): the file system, or the umask, does not allow a socket of mode 0600"
        case .replaced(let path): "\(path): something else has replaced the socket; restart, or give it another path"
        case .failed(let path, let doing, let errno): "cannot \(doing) \(path): \(String(cString: strerror(errno)))"
        }
    }
}
