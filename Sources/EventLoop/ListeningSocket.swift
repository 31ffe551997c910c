internal import CLinux
internal import Glibc

/// Accepts connections on a listening socket and hands each to its owner.
public final class ListeningSocket: SocketHandler {
    private let accepted: (consuming Socket, SocketAddress) -> Void
    /// Called with the error number when no connection can be accepted for want of descriptors or memory.
    private let exhausted: (Int32) -> Void
    /// Connections taken per wake-up, so that one burst does not starve the connections being served.
    private let burst = 64
    private let ceiling: Int32

    /// - Parameter ceiling: Accepting pauses while descriptors below this number are all in use. A new descriptor gets the
    ///   lowest free number (accept(2)), so the number shows how many the whole process has open.
    public init(
        loop: Loop, socket: consuming Socket, ceiling: Int32 = .max, exhausted: @escaping (Int32) -> Void = { _ in },
        accepted: @escaping (consuming Socket, SocketAddress) -> Void
    ) {
        self.ceiling = ceiling
        self.accepted = accepted
        self.exhausted = exhausted
        super.init(loop: loop, socket: socket)
        wantRead(true)
    }

    public override func readable() {
        for _ in 0..<burst {
            var descriptor: Int32 = -1
            let flags = Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
            let peer = SocketAddress { address, length in
                descriptor = ag_accept4(self.descriptor, address, length, flags)
                return descriptor
            }
            guard descriptor >= 0 else {
                let error = errno
                if error == ECONNABORTED { continue }
                if EventLoopError.isExhaustion(error) {
                    pause()
                    exhausted(error)
                }
                return
            }
            if !peer.isUnix {
                var one: Int32 = 1
                _ = setsockopt(
                    descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
            }
            // The one that has passed the ceiling is served; the next ones wait in the kernel.
            let isOver = descriptor >= ceiling
            accepted(Socket(adopting: descriptor), peer)
            guard isOpen else { return }
            if isOver {
                pause()
                exhausted(EMFILE)
                return
            }
        }
    }

    /// A second descriptor of the same socket, with the same queue of connections. - Returns: nil if there is none left.
    public func duplicate() -> Int32? {
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        return duplicate >= 0 ? duplicate : nil
    }

    /// Out of descriptors or memory: the queue stays readable, so without a pause the loop would spin.
    private func pause() {
        wantRead(false)
        setDeadline(.now + .milliseconds(100))
    }

    public override func deadlinePassed() {
        if hasRoom { wantRead(true) } else { pause() }
    }

    /// Whether a descriptor below the ceiling is free.
    private var hasRoom: Bool {
        guard ceiling < .max else { return true }
        guard let probe = duplicate() else { return false }
        _ = Socket(adopting: probe)
        return probe < ceiling
    }
}

/// Listening sockets that came with the process: from a service manager (sd_listen_fds(3)), or from the process that it takes over
/// from. Which listener one is for, its address says; no name is asked.
///
/// Belongs to one thread. Who takes a descriptor owns it; what nobody takes is closed with this.
public final class InheritedSockets {
    private var sockets: [(address: SocketAddress, descriptor: Int32)] = []
    /// Files that are no sockets: locks that go with one.
    private var files: [(device: dev_t, node: ino_t, descriptor: Int32)] = []

    /// - Parameter descriptors: of this process, which nobody else uses. None is passed on to programs from here on.
    /// - Throws: if one is neither a listening stream socket nor a file.
    public init(_ descriptors: some Sequence<Int32>) throws(EventLoopError) {
        for descriptor in descriptors {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw .system(call: "fstat", errno: errno) }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            if status.st_mode & S_IFMT == S_IFREG {
                files.append((status.st_dev, status.st_ino, descriptor))
                continue
            }
            guard Self.option(SO_TYPE, of: descriptor) == Int32(SOCK_STREAM.rawValue),
                Self.option(SO_ACCEPTCONN, of: descriptor) == 1
            else { throw .system(call: "listen", errno: ENOTSOCK) }
            _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
            sockets.append((SocketAddress { getsockname(descriptor, $0, $1) }, descriptor))
        }
    }

    deinit {
        for (_, descriptor) in sockets { close(descriptor) }
        for (_, _, descriptor) in files { close(descriptor) }
    }

    private static func option(_ option: Int32, of descriptor: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, option, &value, &length) == 0 ? value : nil
    }

    /// Those that listen on an address: of a process with several workers there is one for each. None is left here.
    public func take(_ address: SocketAddress) -> [Int32] {
        let taken = sockets.filter { $0.address == address }.map(\.descriptor)
        sockets.removeAll { $0.address == address }
        return taken
    }

    /// Files are compared by what they are, for a path may have been spelt otherwise. - Returns: nil if there is none.
    public func takeFile(_ path: String) -> Int32? {
        var status = stat()
        guard lstat(path, &status) == 0,
            let place = files.firstIndex(where: { $0.device == status.st_dev && $0.node == status.st_ino })
        else { return nil }
        return files.remove(at: place).descriptor
    }

    /// The addresses of those that nobody has taken, for people; of a Unix socket its path.
    public var left: [String] { sockets.map { $0.address.path ?? $0.address.description } }
}
