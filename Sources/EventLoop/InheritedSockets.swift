internal import Glibc

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
