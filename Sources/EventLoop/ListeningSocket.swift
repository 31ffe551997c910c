internal import CLinux
internal import Glibc

/// A listening socket that accepts connections and hands each to its owner.
public final class ListeningSocket: SocketHandler {
    private let accepted: (consuming Socket, SocketAddress) -> Void
    /// Called with the error number if no connection can be accepted for lack of descriptors or memory.
    private let exhausted: (Int32) -> Void
    /// The maximum number of connections accepted per wake-up. It keeps a burst from starving the open connections.
    private let burst = 64
    private let ceiling: Int32

    /// Starts to accept.
    ///
    /// - Parameters:
    ///   - ceiling: Accepting pauses while all descriptors below this number are in use. A new descriptor gets the
    ///     lowest free
    ///     number (accept(2)), so the number shows how many the whole process has open.
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
            // This connection is still served; the next ones wait in the kernel.
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

    /// Returns a second descriptor of the same socket, with the same queue of connections.
    ///
    /// - Returns: nil if no descriptor is free.
    public func duplicate() -> Int32? {
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        return duplicate >= 0 ? duplicate : nil
    }

    /// Pauses accepting without free descriptors or memory. The queue stays readable, so without a pause the loop would
    /// spin.
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

/// The listening sockets that the process started with.
///
/// They come from a service manager (sd_listen_fds(3)) or from the process that this one replaces. A socket is
/// identified by its address, not by a name.
///
/// Belongs to one thread. The caller that takes a descriptor owns it; the others are closed with this object.
public final class InheritedSockets {
    private var sockets: [(address: SocketAddress, descriptor: Int32)] = []
    /// Lock files that belong to Unix sockets.
    private var files: [(device: dev_t, node: ino_t, descriptor: Int32)] = []

    /// Takes over descriptors, and marks them as close-on-exec.
    ///
    /// - Parameter descriptors: descriptors of this process that nothing else uses.
    /// - Throws: an error if one is neither a listening stream socket nor a file.
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

    /// Removes and returns the sockets that listen on an address. A process with several workers has one for each.
    public func take(_ address: SocketAddress) -> [Int32] {
        let taken = sockets.filter { $0.address == address }.map(\.descriptor)
        sockets.removeAll { $0.address == address }
        return taken
    }

    /// Removes and returns the descriptor of a file. Files are compared by identity, since a path may be spelt
    /// differently.
    ///
    /// - Returns: nil if the file is not among them.
    public func takeFile(_ path: String) -> Int32? {
        var status = stat()
        guard lstat(path, &status) == 0,
            let place = files.firstIndex(where: { $0.device == status.st_dev && $0.node == status.st_ino })
        else { return nil }
        return files.remove(at: place).descriptor
    }

    /// The addresses of the sockets that were not taken, for people. A Unix socket has its path.
    public var left: [String] { sockets.map { $0.address.path ?? $0.address.description } }
}
