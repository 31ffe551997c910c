public import Bytes
public import EventLoop

/// The transport of a connection's bytes, to a client or a service.
///
/// An enum over one reference, with a null pointer for `plain`, so TLS costs only one comparison more than no
/// transport. The functions of the data path are inlined into both roles.
public enum Transport {
    case tls(TLSStream)
    /// The bare socket. Something else authenticates clients: the mode of a Unix socket's file, for instance.
    case plain

    public var isPlain: Bool {
        if case .plain = self { true } else { false }
    }

    /// Reads into the buffer's room until it is full or no more has arrived.
    @inlinable @inline(__always)
    public func read(from socket: SocketHandler, into buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.read(into: &buffer)
        case .plain: Self.receive(from: socket, into: &buffer)
        }
    }

    /// Reads into the buffer's room, if there is any, with one access to the buffer (see `drain`).
    ///
    /// - Returns: the result, and the size of the room. If there was none, nothing was read.
    @inlinable @inline(__always)
    public func fill(_ buffer: inout ByteBuffer, from socket: SocketHandler) -> (step: TLSStep, room: Int) {
        let room = buffer.room
        return (room > 0 ? read(from: socket, into: &buffer) : .done(0), room)
    }

    /// Writes from the front of the buffer and consumes the written bytes.
    @inlinable @inline(__always)
    public func write(to socket: SocketHandler, from buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.write(from: &buffer)
        case .plain: Self.send(to: socket, from: &buffer)
        }
    }

    /// Writes everything in the buffer, and returns its block afterwards. One access to the buffer covers all of it:
    /// each access to a connection's property is checked at run time.
    ///
    /// - Returns: the result of the last write, and the number of bytes taken.
    @inlinable @inline(__always)
    public func drain(_ buffer: inout ByteBuffer, to socket: SocketHandler) -> (outcome: Drained, taken: Int) {
        let waiting = buffer.count
        guard waiting > 0 else {
            buffer.releaseIfEmpty()
            return (.all, 0)
        }
        let outcome = Drained(write(to: socket, from: &buffer))
        let taken = waiting - buffer.count
        buffer.releaseIfEmpty()
        return (outcome, taken)
    }

    /// Whether buffers hold bytes of the peer that no readiness event will announce.
    @inlinable @inline(__always)
    public var hasBufferedInput: Bool {
        switch self {
        case .tls(let stream): stream.hasBufferedInput
        case .plain: false
        }
    }

    /// Tells the peer that nothing more comes. A plain connection does so by closing.
    public func sendCloseNotify() {
        if case .tls(let stream) = self { stream.sendCloseNotify() }
    }

    /// The result of draining a buffer. Unlike `TLSStep`, it has no reason of a failure, since a value without text is
    /// cheaper to copy.
    public enum Drained: Sendable {
        /// The kernel has accepted everything.
        case all
        case wantRead
        case wantWrite
        case broken

        @inlinable
        init(_ step: TLSStep) {
            switch step {
            case .done: self = .all
            case .wantRead: self = .wantRead
            case .wantWrite: self = .wantWrite
            case .endOfStream, .failed: self = .broken
            }
        }
    }

    @usableFromInline
    static func receive(from socket: SocketHandler, into buffer: inout ByteBuffer) -> TLSStep {
        switch socket.receive(into: &buffer) {
        case .bytes(let count): .done(count)
        case .wouldBlock: .wantRead
        case .endOfStream: .endOfStream
        case .failed: .failed(.disconnected)
        }
    }

    @usableFromInline
    static func send(to socket: SocketHandler, from buffer: inout ByteBuffer) -> TLSStep {
        var total = 0
        while !buffer.isEmpty {
            switch socket.send(from: &buffer) {
            case .bytes(let count): total += count
            case .wouldBlock: return .wantWrite
            case .endOfStream, .failed: return .failed(.disconnected)
            }
        }
        return .done(total)
    }
}
