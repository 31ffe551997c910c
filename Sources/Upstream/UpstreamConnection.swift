internal import Bytes
public import EventLoop
internal import Glibc
internal import TLS

/// A connection to a server of an upstream: its establishment, TLS, and everything that both versions of HTTP share.
///
/// Owned by its pool. Holds one block for input and one for output, and none while idle. The protocols are in
/// `HTTP1Connection` and `HTTP2UpstreamConnection`.
///
/// ```
///             connected                 done
/// connecting -----------> handshake -----------> tls
///   ^  |                      |                   |
///   |  +--- without TLS ------|--> plain          |
///   +-------------------------+------+------------+
///       not sent: next address or server
/// ```
public class UpstreamConnection: SocketHandler {
    /// The state of the present socket.
    private enum Link {
        case connecting
        case handshake(TLSStream)
        case plain
        case tls(TLSStream, TLSWaits)
    }

    /// The search for a server that serves the first call.
    private enum Search {
        case trying(ConnectAttempts)
        /// The present socket has served a call. If the server closes it before the next one, the search starts again.
        case ended
    }

    /// The owner, which outlives this connection.
    unowned final let pool: UpstreamPool
    final let responseTimeout: TimeSpan
    final let contentTimeout: TimeSpan
    final let idleTimeout: TimeSpan
    /// The index of the server.
    final var server: Int
    /// The server's number for the address of the connection.
    final var address: Int
    final var slot = 0
    /// Whether the connection is a health check: it serves one call, stays with one server and counts for no limit.
    final let isCheck: Bool
    private final var link = Link.connecting
    private final var search = Search.ended
    /// The bytes to be sent.
    final var output: ByteBuffer

    /// Creates a connection.
    ///
    /// - Parameters:
    ///   - addressesLeft: the number of further addresses of `server` that may be tried.
    ///   - socket: a socket that connects to `server`.
    init(pool: UpstreamPool, server: Int, addressesLeft: Int, socket: consuming Socket, isCheck: Bool) {
        self.pool = pool
        self.server = server
        self.isCheck = isCheck
        address = pool.servers[server].connectedAddress
        responseTimeout = pool.settings.responseTimeout
        contentTimeout = pool.settings.contentTimeout
        idleTimeout = pool.settings.idleTimeout
        output = ByteBuffer(pool: pool.buffers)
        super.init(loop: pool.loop, socket: socket)
        awaitConnect(ConnectAttempts(addressesLeft: addressesLeft, end: nextConnectEnd))
    }

    // MARK: - Connecting

    /// Whether nothing of a call can have been sent.
    final var isConnecting: Bool {
        switch link {
        case .connecting, .handshake: true
        case .plain, .tls: false
        }
    }

    /// The deadline of the present socket to connect.
    final var connectDeadline: Instant {
        if case .trying(let attempts) = search { attempts.deadline } else { Instant(nanoseconds: .max) }
    }

    /// Whether the present socket has served a call.
    final var hasServed: Bool { if case .ended = search { true } else { false } }

    final func endSearch() { if !hasServed { search = .ended } }

    /// The deadline of connecting. With further addresses or servers, twice the time of one is allowed.
    private final var nextConnectEnd: Instant {
        loop.now + pool.settings.connectTimeout + pool.settings.connectTimeout
    }

    private final func awaitConnect(_ attempts: ConnectAttempts) {
        var attempts = attempts
        attempts.deadline = min(loop.now + pool.settings.connectTimeout, attempts.end)
        search = .trying(attempts)
        link = .connecting
        wantWrite(true)
        setDeadline(attempts.deadline)
    }

    /// Connects another socket: to the server's next address, or to another server.
    ///
    /// - Parameters:
    ///   - call: the call that decides about further servers. Nil for no other server.
    ///   - isExtended: whether the time to connect starts again.
    /// - Throws: if nothing is left to try, the most significant failure of the last server's addresses.
    final func reconnect(
        for call: UpstreamCall?, after failure: UpstreamFailure, isExtended: Bool
    ) throws(UpstreamFailure) {
        var failure = failure
        var attempts: ConnectAttempts
        switch search {
        case .trying(let earlier):
            attempts = earlier
            failure = attempts.combine(failure)
            if isExtended { attempts.end = nextConnectEnd }
        // The server has closed a kept connection, which is no failure.
        case .ended:
            attempts = ConnectAttempts(addressesLeft: pool.servers[server].addressCount, end: nextConnectEnd)
        }
        replaceSocket(try pool.anotherSocket(for: self, of: call, after: failure, &attempts))
        awaitConnect(attempts)
    }

    /// Continues to connect if the socket is not ready for requests.
    ///
    /// - Returns: whether it was not. Then the event needs no further handling.
    final func continueConnecting(isWritable: Bool) -> Bool {
        switch link {
        case .connecting: if isWritable { connectEnded() }
        case .handshake(let stream): handshake(stream)
        case .plain, .tls: return false
        }
        return true
    }

    /// Handles the end of the attempt to connect. TLS begins if the upstream requires it. Its time is the rest of the
    /// time to connect.
    private final func connectEnded() {
        let error = pendingError
        guard error == 0 else { return notSent(.connecting(to: place, error)) }
        guard let destination = pool.servers[server].destination else {
            link = .plain
            return established()
        }
        guard let stream = TLSStream(connecting: descriptor, to: destination) else {
            return notSent(.exhausted(errno: ENOMEM))
        }
        link = .handshake(stream)
        handshake(stream)
    }

    private final func handshake(_ stream: TLSStream) {
        switch stream.handshake() {
        case .done:
            link = .tls(stream, [])
            established()
        case .wantRead:
            wantWrite(false)
            wantRead(true)
        case .wantWrite:
            wantRead(false)
            wantWrite(true)
        case .endOfStream, .failed(.disconnected):
            notSent(tlsFailure("the server closed the connection during the handshake"))
        case .failed(let failure): notSent(tlsFailure(failure))
        }
    }

    /// Ends an attempt to connect that exceeds its time.
    ///
    /// - Returns: whether there was one.
    final func endOverdueConnecting() -> Bool {
        switch link {
        case .connecting: notSent(.connectTimeout(server: place))
        case .handshake: notSent(tlsFailure("the server did not complete the handshake in time"))
        case .plain, .tls: return false
        }
        return true
    }

    final var place: String { pool.servers[server].place(of: address) }

    final func tlsFailure(_ failure: TLSFailure) -> UpstreamFailure {
        switch failure {
        case .tls(let reason): tlsFailure(reason)
        case .disconnected: .disconnected
        // Servers' connections have clients, ours have none.
        case .clientCertificate(let fault): tlsFailure(fault.reason)
        }
    }

    final func tlsFailure(_ reason: String) -> UpstreamFailure {
        .tls(server: pool.servers[server].name, reason: reason)
    }

    // MARK: - The transport

    /// The transport of the present socket.
    final var transport: Transport {
        switch link {
        case .connecting, .plain: .plain
        case .handshake(let stream), .tls(let stream, _): .tls(stream)
        }
    }

    final var waits: TLSWaits {
        get { if case .tls(_, let waits) = link { waits } else { [] } }
        set { if case .tls(let stream, _) = link { link = .tls(stream, newValue) } }
    }

    final func waitToWriteBeforeReading() {
        waits.insert(.read)
        // The socket's bytes cannot be read until then, and must not wake the loop again and again.
        wantRead(false)
        wantWrite(true)
    }

    /// Waits until the server accepts more. Over TLS, a read may be necessary first.
    final func waitToWrite(afterReading: Bool) {
        if afterReading { waits.insert(.write) } else { waits.remove(.write) }
        wantWrite(!waits.contains(.write))
    }

    // MARK: - For subclasses

    /// Called when the connection is open, and its peer is the expected server.
    func established() {}
    /// Called when not one byte of a request was sent on this socket, so another one may be used.
    func notSent(_ failure: UpstreamFailure) {}
    /// Closes the connection for good.
    func discard() {}
    /// Closes the connection because its pool ends.
    func abandon() { close() }
}

/// The directions of TLS that wait for the other one: it may have to write (a key update) before it can read on, or to
/// read before it can write.
struct TLSWaits: OptionSet {
    let rawValue: UInt8
    static let read = TLSWaits(rawValue: 1)
    static let write = TLSWaits(rawValue: 2)
}

/// What may still be tried to connect for a call, and until when.
struct ConnectAttempts {
    /// The number of addresses of the present server that may still be tried.
    var addressesLeft: Int
    /// The deadline of all attempts together.
    var end: Instant
    /// The deadline of the present socket.
    var deadline = Instant(nanoseconds: .max)
    /// The most significant failure of the server's addresses tried so far. Nil if there was none.
    private(set) var failure: UpstreamFailure?

    /// Records a failure.
    ///
    /// - Returns: the most significant one so far.
    mutating func combine(_ later: UpstreamFailure) -> UpstreamFailure {
        let combined = failure?.orFurther(later) ?? later
        failure = combined
        return combined
    }

    /// Continues with another server, which has its own failure.
    mutating func moveOn(addressesLeft: Int) {
        self.addressesLeft = addressesLeft
        failure = nil
    }
}
