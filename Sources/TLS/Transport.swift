public import Bytes
public import EventLoop

/// What a connection's bytes travel in, a client's or a service's.
///
/// An enum over one reference, a null pointer for `plain`: TLS costs a comparison more than if there were nothing else. What
/// the data path calls is inlined into both roles.
public enum Transport {
    case tls(TLSStream)
    /// The bare socket, where something else says who may connect: the mode of a Unix socket's file, for instance.
    case plain

    public var isPlain: Bool {
        if case .plain = self { true } else { false }
    }

    /// Reads into the buffer's room until it is full or nothing more has arrived.
    @inlinable @inline(__always)
    public func read(from socket: SocketHandler, into buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.read(into: &buffer)
        case .plain: Self.receive(from: socket, into: &buffer)
        }
    }

    /// Reads into the buffer's room, if there is any, with one access to the buffer: see `drain`.
    ///
    /// - Returns: how that ended, and how much room there was; if none, nothing was read.
    @inlinable @inline(__always)
    public func fill(_ buffer: inout ByteBuffer, from socket: SocketHandler) -> (step: TLSStep, room: Int) {
        let room = buffer.room
        return (room > 0 ? read(from: socket, into: &buffer) : .done(0), room)
    }

    /// Writes from the front of the buffer and consumes what was taken.
    @inlinable @inline(__always)
    public func write(to socket: SocketHandler, from buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.write(from: &buffer)
        case .plain: Self.send(to: socket, from: &buffer)
        }
    }

    /// Writes all that there is, and gives the block back when that is done. One access to the buffer for all of it: where that is a
    /// property of a connection, each is checked at run time.
    ///
    /// - Returns: how the last write ended, and how much was taken.
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

    /// Whether bytes of the peer lie in buffers that no readiness event will announce.
    @inlinable @inline(__always)
    public var hasBufferedInput: Bool {
        switch self {
        case .tls(let stream): stream.hasBufferedInput
        case .plain: false
        }
    }

    /// Tells the peer that nothing more comes. A plain connection says so by closing.
    public func sendCloseNotify() {
        if case .tls(let stream) = self { stream.sendCloseNotify() }
    }

    /// What has become of what there was to write. Unlike a `TLSStep` it says nothing of why a connection is broken, for what
    /// holds no text need not be asked whether it does.
    public enum Drained: Sendable {
        /// The kernel has it all.
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
