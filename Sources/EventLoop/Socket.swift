public import Bytes
internal import CLibevent
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

    /// The descriptor's number, for libraries that use it while another object owns it.
    public var number: Int32 { descriptor }

    /// Passes the descriptor to a new owner, for instance on another thread.
    public consuming func detach() -> Int32 {
        let released = descriptor
        descriptor = -1
        return released
    }

    /// Creates a listening socket.
    ///
    /// - Parameter isShared: whether to set `SO_REUSEPORT`. Every worker then has its own socket, and the kernel
    ///   distributes connections. Otherwise the call fails if any other socket listens on the address.
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

    /// Starts to connect. The socket becomes writable when that has succeeded or failed (`pendingError`).
    ///
    /// - Parameter ceiling: The call fails as if no descriptor were free (EMFILE) if all below this number are in use.
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

    /// Returns whether one more socket could be opened now.
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
        // Fails only for an option that the kernel does not know; none here is newer than Linux 3.9.
        _ = setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}

/// The result of a read or write on a non-blocking socket.
public enum Transfer: Equatable, Sendable {
    /// The number of bytes moved, at least one.
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
    /// Reads available bytes into the buffer's room with one system call.
    public final func receive(into buffer: inout ByteBuffer) -> Transfer {
        buffer.withWritable { room in
            precondition(room.count > 0, "received into a full buffer")
            let count = recv(descriptor, room.baseAddress, room.count, 0)
            if count > 0 { return (count, .bytes(count)) }
            if count == 0 { return (0, .endOfStream) }
            return (0, failure())
        }
    }

    /// Copies available bytes into the buffer's room without removing them, with one system call.
    ///
    /// - Parameter limit: the maximum number of bytes.
    public final func peek(into buffer: inout ByteBuffer, atMost limit: Int) -> Transfer {
        buffer.withWritable { room in
            let count = recv(descriptor, room.baseAddress, min(room.count, limit), Int32(MSG_PEEK))
            if count > 0 { return (count, .bytes(count)) }
            if count == 0 { return (0, .endOfStream) }
            return (0, failure())
        }
    }

    /// Drops bytes that `peek` has returned, without a copy. Only TCP supports this (tcp(7), MSG_TRUNC).
    ///
    /// - Returns: whether as many were available.
    public final func discard(_ count: Int) -> Bool { recv(descriptor, nil, count, Int32(MSG_TRUNC)) == count }

    /// Writes from the front of the buffer with one system call, and consumes the bytes that the kernel accepted.
    public final func send(from buffer: inout ByteBuffer) -> Transfer {
        let count = buffer.withUnsafeReadable { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard count > 0 else { return failure() }
        buffer.consume(count)
        return .bytes(count)
    }

    /// Whether nothing has arrived from the peer, not even the end.
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

    /// Makes `close` reset the connection: the peer's next read fails, and undelivered bytes are dropped.
    public final func breakOnClose() {
        var breaking = linger(l_onoff: 1, l_linger: 0)
        _ = setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &breaking, socklen_t(MemoryLayout<linger>.size))
    }

    /// The user that connected to a Unix socket, as the kernel reports it (unix(7), SO_PEERCRED). Nil for other
    /// sockets.
    public final var peerUser: UInt32? {
        var family: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0, family == AF_UNIX else { return nil }
        // struct ucred: process, user and group, of 32 bits each. The process is 0 if it is outside our PID namespace.
        var credentials: [UInt32] = [0, 0, 0]
        var length = socklen_t(credentials.count * MemoryLayout<UInt32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 else { return nil }
        return credentials[1]
    }

    public final var localAddress: SocketAddress { SocketAddress { getsockname(descriptor, $0, $1) } }

    private func failure() -> Transfer {
        let error = errno
        return error == EAGAIN || error == EINTR ? .wouldBlock : .failed(errno: error)
    }
}

/// An object that a loop calls when its socket is readable or writable, or when a deadline has passed.
///
/// Subclasses are connections and listeners. An owner, such as a connection table or a pool, keeps the handler alive
/// from `watch()` to `close()`. libevent holds it unretained. `close()` removes every event before the owner releases
/// the handler, so no callback reaches a freed one. During a callback the loop holds a reference of its own.
///
/// The reading event is persistent and level-triggered by default; the writing event exists only while the kernel's
/// buffer is full. Moving a deadline further away costs nothing: the timer is re-armed when it fires early.
open class SocketHandler {
    public final let loop: Loop
    public final var descriptor: Int32 { socket }
    private final var socket: Int32

    private final var readEvent: OpaquePointer?
    private final var writeEvent: OpaquePointer?
    private final var timerEvent: OpaquePointer?
    private final var isReading = false
    private final var isWriting = false
    private final var deadline = Instant(nanoseconds: .max)
    private final var armed = Instant(nanoseconds: .max)

    /// Further flags of the reading event.
    private final let readFlags: Int16

    /// Creates a handler.
    ///
    /// - Parameter readsEdges: whether `readable()` is called once for each arrival, instead of as long as bytes are
    ///   there.
    public init(loop: Loop, socket: consuming Socket, readsEdges: Bool = false) {
        self.loop = loop
        readFlags = readsEdges ? Int16(EV_READ | EV_PERSIST | EV_ET) : Int16(EV_READ | EV_PERSIST)
        self.socket = socket.detach()
    }

    deinit {
        close()
    }

    /// Called when the socket has bytes to read, was closed by the peer, or failed.
    open func readable() {}
    /// Called when the socket has room again.
    open func writable() {}
    /// Called when the last deadline set has passed.
    open func deadlinePassed() {}

    public final var isOpen: Bool { descriptor >= 0 }

    /// Sets whether `readable()` is called. Repeating a setting costs nothing.
    public final func wantRead(_ want: Bool) {
        guard want != isReading, isOpen else { return }
        isReading = want
        if readEvent == nil { readEvent = makeEvent(readFlags, readReady) }
        if want { event_add(readEvent, nil) } else { event_del(readEvent) }
    }

    /// Calls `readable()` once more in the loop's next turn, whatever the state of the socket. For bytes that a layer
    /// above the socket has read ahead.
    public final func readAgain() {
        wantRead(true)
        if isOpen { event_active(readEvent, Int32(EV_READ), 0) }
    }

    /// Sets whether `writable()` is called.
    public final func wantWrite(_ want: Bool) {
        guard want != isWriting, isOpen else { return }
        isWriting = want
        if writeEvent == nil { writeEvent = makeEvent(Int16(EV_WRITE | EV_PERSIST), writeReady) }
        if want { event_add(writeEvent, nil) } else { event_del(writeEvent) }
    }

    /// Calls `deadlinePassed()` once at `instant`, in place of any earlier deadline.
    public final func setDeadline(_ instant: Instant) {
        deadline = instant
        if instant < armed { arm(at: instant) }
    }

    public final func clearDeadline() {
        deadline = Instant(nanoseconds: .max)
    }

    /// Removes every event and closes the socket. Repeated calls have no effect.
    public final func close() {
        for event in [readEvent, writeEvent, timerEvent] where event != nil { event_free(event) }
        readEvent = nil
        writeEvent = nil
        timerEvent = nil
        isReading = false
        isWriting = false
        armed = Instant(nanoseconds: .max)
        if descriptor >= 0 {
            _ = Glibc.close(descriptor)
            socket = -1
        }
    }

    /// Replaces the socket, for an upstream connection that tries its next address.
    public final func replaceSocket(_ socket: consuming Socket) {
        close()
        self.socket = socket.detach()
        if deadline.nanoseconds != .max { arm(at: deadline) }
    }

    private func makeEvent(_ what: Int16, _ callback: @escaping event_callback_fn) -> OpaquePointer {
        guard let event = event_new(loop.base, descriptor, what, callback, Unmanaged.passUnretained(self).toOpaque())
        else { fatalError("out of memory: event_new") }  // as every other allocation in Swift does
        return event
    }

    private func arm(at instant: Instant) {
        guard isOpen else { return }
        if timerEvent == nil {
            timerEvent = event_new(
                loop.base, -1, 0, timerFired, Unmanaged.passUnretained(self).toOpaque())
        }
        armed = instant
        var interval = timeval(after: instant - loop.now)
        event_add(timerEvent, &interval)
    }

    @inline(__always)
    fileprivate final func serve(_ event: (SocketHandler) -> Void) {
        loop.refreshClock()
        event(self)
    }

    fileprivate final func timerCame() {
        armed = Instant(nanoseconds: .max)
        guard deadline.nanoseconds != .max else { return }
        if deadline <= loop.now {
            deadline = Instant(nanoseconds: .max)
            deadlinePassed()
        } else {
            arm(at: deadline)
        }
    }
}

extension timeval {
    /// Converts a span, rounded up to the microsecond, so that a timer never fires before its instant.
    init(after span: TimeSpan) {
        let microseconds = max(0, (span.nanoseconds + 999) / 1_000)
        self.init(tv_sec: Int(microseconds / 1_000_000), tv_usec: Int(microseconds % 1_000_000))
    }
}

private nonisolated func readReady(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.readable() }
}

private nonisolated func writeReady(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.writable() }
}

private nonisolated func timerFired(_: Int32, _: Int16, _ context: UnsafeMutableRawPointer?) {
    handler(context).serve { $0.timerCame() }
}

/// Returns the handler of an event. The context is the handler itself, set in `makeEvent`, alive until `close()`.
private func handler(_ context: UnsafeMutableRawPointer?) -> SocketHandler {
    guard let context else { preconditionFailure("an event without its handler") }
    return Unmanaged<SocketHandler>.fromOpaque(context).takeUnretainedValue()
}
