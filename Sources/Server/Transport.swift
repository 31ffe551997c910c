internal import Bytes
internal import EventLoop
internal import TLS

/// What a connection's bytes travel in.
///
/// An enum over one reference, a null pointer for `plain`, and constant for a connection's life: TLS costs a comparison
/// more than if there were nothing else.
enum Transport {
    case tls(TLSStream)
    /// The bare socket, where something else says who may connect: the mode of a Unix socket's file, for instance.
    case plain

    var isPlain: Bool {
        if case .plain = self { true } else { false }
    }

    /// Reads into the buffer's room until it is full or nothing more has arrived.
    @inline(__always)
    func read(from socket: SocketHandler, into buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.read(into: &buffer)
        case .plain: Self.receive(from: socket, into: &buffer)
        }
    }

    /// Writes from the front of the buffer and consumes what was taken.
    @inline(__always)
    func write(to socket: SocketHandler, from buffer: inout ByteBuffer) -> TLSStep {
        switch self {
        case .tls(let stream): stream.write(from: &buffer)
        case .plain: Self.send(to: socket, from: &buffer)
        }
    }

    /// Whether bytes of the peer lie in buffers that no readiness event will announce.
    @inline(__always)
    var hasBufferedInput: Bool {
        switch self {
        case .tls(let stream): stream.hasBufferedInput
        case .plain: false
        }
    }

    /// Tells the peer that nothing more comes. A plain connection says so by closing.
    func sendCloseNotify() {
        if case .tls(let stream) = self { stream.sendCloseNotify() }
    }

    @inline(never)
    private static func receive(from socket: SocketHandler, into buffer: inout ByteBuffer) -> TLSStep {
        switch socket.receive(into: &buffer) {
        case .bytes(let count): .done(count)
        case .wouldBlock: .wantRead
        case .endOfStream: .endOfStream
        case .failed: .failed(.disconnected)
        }
    }

    @inline(never)
    private static func send(to socket: SocketHandler, from buffer: inout ByteBuffer) -> TLSStep {
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
