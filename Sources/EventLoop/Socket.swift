public import Bytes
internal import Glibc

/// A non-blocking stream socket, closed when dropped.
public struct Socket: ~Copyable {
    private var descriptor: Int32

    /// Takes over an open descriptor.
    public init(adopting descriptor: Int32) {
        self.descriptor = descriptor
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// The descriptor's number, for libraries that work on it while somebody else owns it.
    public var number: Int32 { descriptor }

    /// Hands the descriptor to a new owner, on another thread for instance.
    public consuming func detach() -> Int32 {
        let released = descriptor
        descriptor = -1
        return released
    }

    /// A listening socket.
    ///
    /// - Parameter isShared: with `SO_REUSEPORT`: every worker has one of its own, and the kernel spreads connections.
    ///   Without it the call fails if any other socket listens on the address.
    public static func listen(
        on address: SocketAddress, isShared: Bool = true, backlog: Int32 = 4096
    ) throws(EventLoopError) -> Socket {
        let socket = try make(family: address.family)
        socket.set(SOL_SOCKET, SO_REUSEADDR, 1)
        if isShared { socket.set(SOL_SOCKET, SO_REUSEPORT, 1) }
        if address.isIPv6 { socket.set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
        guard address.withSockaddr({ bind(socket.descriptor, $0, $1) }) == 0 else {
            throw .system(call: "bind", errno: errno)
        }
        guard Glibc.listen(socket.descriptor, backlog) == 0 else { throw .system(call: "listen", errno: errno) }
        return socket
    }

    /// Starts to connect; the socket becomes writable when that has succeeded or failed (`pendingError`).
    ///
    /// - Parameter ceiling: The call fails as without a free descriptor (EMFILE) if all below this number are in use.
    public static func connect(
        to address: SocketAddress, ceiling: Int32 = .max
    ) throws(EventLoopError) -> Socket {
        let socket = try make(family: address.family)
        guard socket.descriptor < ceiling else { throw .system(call: "socket", errno: EMFILE) }
        if !address.isUnix { socket.set(Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
        let status = address.withSockaddr { Glibc.connect(socket.descriptor, $0, $1) }
        guard status == 0 || errno == EINPROGRESS else { throw .system(call: "connect", errno: errno) }
        return socket
    }

    /// Whether one more socket could be opened now.
    ///
    /// - Parameter ceiling: the number that its descriptor must stay below.
    public static func canOpen(ceiling: Int32) -> Bool {
        do throws(EventLoopError) { return try make(family: AF_UNIX).number < ceiling } catch {
            guard case .system(_, let errno) = error else { return true }
            return !EventLoopError.isExhaustion(errno)
        }
    }

    private static func make(family: Int32) throws(EventLoopError) -> Socket {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, type, 0)
        guard descriptor >= 0 else { throw .system(call: "socket", errno: errno) }
        return Socket(adopting: descriptor)
    }

    private borrowing func set(_ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        // Can fail only for an option the kernel does not know; none here is newer than Linux 3.9.
        _ = setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}

/// How a read or write on a non-blocking socket ended.
public enum Transfer: Equatable, Sendable {
    /// That many bytes moved, at least one.
    case bytes(Int)
    /// Nothing moved; wait for readiness.
    case wouldBlock
    /// The peer has closed its sending side.
    case endOfStream
    /// The connection is broken.
    case failed(errno: Int32)
}

// MARK: - Operations on the socket of a handler

extension SocketHandler {
    /// Reads what is there into the buffer's room, one system call.
    public final func receive(into buffer: inout ByteBuffer) -> Transfer {
        buffer.withWritable { room in
            precondition(room.count > 0, "received into a full buffer")
            let count = recv(descriptor, room.baseAddress, room.count, 0)
            if count > 0 { return (count, .bytes(count)) }
            if count == 0 { return (0, .endOfStream) }
            return (0, failure())
        }
    }

    /// Copies what is there into the buffer's room and leaves it where it is, one system call.
    ///
    /// - Parameter limit: how many bytes at most.
    public final func peek(into buffer: inout ByteBuffer, atMost limit: Int) -> Transfer {
        buffer.withWritable { room in
            let count = recv(descriptor, room.baseAddress, min(room.count, limit), Int32(MSG_PEEK))
            if count > 0 { return (count, .bytes(count)) }
            if count == 0 { return (0, .endOfStream) }
            return (0, failure())
        }
    }

    /// Drops bytes that `peek` has shown, without a copy: only TCP can (tcp(7), MSG_TRUNC).
    ///
    /// - Returns: whether as many were there.
    public final func discard(_ count: Int) -> Bool { recv(descriptor, nil, count, Int32(MSG_TRUNC)) == count }

    /// Writes from the front of the buffer, one system call, and consumes what the kernel took.
    public final func send(from buffer: inout ByteBuffer) -> Transfer {
        let count = buffer.withUnsafeReadable { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard count > 0 else { return failure() }
        buffer.consume(count)
        return .bytes(count)
    }

    /// Whether nothing has come from the peer, not even the end.
    public final var isQuiet: Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) < 0 && errno == EAGAIN
    }

    /// The outcome of a connection attempt: 0, or the error number.
    public final var pendingError: Int32 {
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 else { return errno }
        return error
    }

    /// Tells the peer that nothing more will be sent.
    public final func shutdownSending() {
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    /// `close` will not end the connection but break it: the peer's next read fails, and what it has not got is dropped.
    public final func breakOnClose() {
        var breaking = linger(l_onoff: 1, l_linger: 0)
        _ = setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &breaking, socklen_t(MemoryLayout<linger>.size))
    }

    /// The user that connected to a Unix socket, as the kernel knows it (unix(7), SO_PEERCRED); nil for other sockets.
    public final var peerUser: UInt32? {
        // struct ucred: process, user, group, of 32 bits each.
        var credentials: [UInt32] = [0, 0, 0]
        var length = socklen_t(credentials.count * MemoryLayout<UInt32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0, credentials[0] != 0 else {
            return nil
        }
        return credentials[1]
    }

    public final var localAddress: SocketAddress { SocketAddress { getsockname(descriptor, $0, $1) } }

    private func failure() -> Transfer {
        let error = errno
        return error == EAGAIN || error == EINTR ? .wouldBlock : .failed(errno: error)
    }
}
