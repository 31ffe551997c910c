public import Bytes
internal import COpenSSL
internal import Cryptography

/// One TLS connection over a non-blocking socket: handshake, read, write, close.
///
/// Owns OpenSSL's connection object; the socket belongs to the caller, who closes it after dropping the stream.
///
/// A class, though it has one owner: as a stored property of a connection, a struct would cost an exclusivity check for
/// every read and write.
public final class TLSStream {
    private let pointer: OpaquePointer
    private let record: HandshakeRecord?
    /// Of a connection that we have opened.
    private let outgoing: DestinationRecord?
    /// What the connection was accepted by; nil on the client side.
    public var hosts: VirtualHosts? { record?.hosts }
    /// The host that serves the connection; nil on the client side.
    public var server: ServerContext? { record?.context }
    /// The host that the client has asked for; nil if for none, or not yet.
    public var serverName: ServerName? { record?.serverName }
    /// A fatal error has occurred: nothing may be called on the connection any more, close_notify included.
    private var isBroken = false
    /// What a read found behind the bytes it handed out.
    private var deferred: TLSStep?
    /// Whether there is one. A step may hold a text, and to look for it costs what copying it would.
    private var hasDeferred = false
    /// Whether OpenSSL has read more than was handed out. Nothing but the handshake and reading changes that.
    private var hasPending = false
    /// What had come from the socket at the first read since content that brought none; nil if there was none.
    private var barrenSince: UInt64?
    /// Octets of tickets, key updates and refused handshakes between content: thousands of them, where a peer of good will sends
    /// two or three, and some 50 ms of work. An unfinished record has a sixteenth of it.
    private static let mostBarrenOctets: UInt64 = 262_144

    /// What a stream counts on in the context that its connection is made of, in either role.
    static func setModes(of context: OpaquePointer) {
        // Partial writes: a record at a time leaves the buffer, from wherever it now stands. Buffers are freed when idle.
        _ = ag_ssl_ctx_set_mode(
            context,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS))
        // With it, one SSL_read would last for as long as the peer sends tickets or key updates, and hold its whole thread.
        _ = ag_ssl_ctx_clear_mode(context, Int(SSL_MODE_AUTO_RETRY))
        // One recv for a whole record, not one for its header and one for its body.
        ag_ssl_ctx_set_read_ahead(context, 1)
    }

    /// The server side of a connection just accepted.
    public init?(accepting descriptor: Int32, _ hosts: VirtualHosts) {
        guard let pointer = SSL_new(hosts.standard.pointer) else { return nil }
        let record = HandshakeRecord(hosts)
        guard SSL_set_fd(pointer, descriptor) == 1, record.attach(to: pointer) else {
            SSL_free(pointer)
            return nil
        }
        SSL_set_accept_state(pointer)
        self.pointer = pointer
        self.record = record
        outgoing = nil
    }

    /// The client side of a connection just opened.
    public init?(connecting descriptor: Int32, to destination: TLSDestination) {
        guard let pointer = destination.makeConnection(descriptor) else { return nil }
        let outgoing = DestinationRecord(destination)
        guard outgoing.attach(to: pointer) else {
            SSL_free(pointer)
            return nil
        }
        self.pointer = pointer
        self.outgoing = outgoing
        record = nil
    }

    deinit {
        // OpenSSL takes a session for unusable if its connection is freed without close_notify; but phones leave networks
        // without saying so, and TLS has not asked for this since RFC 5246 (section 7.2.1). After a protocol failure it
        // has dropped the session already.
        SSL_set_shutdown(pointer, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(pointer)
    }

    /// Advances the handshake.
    public func handshake() -> TLSStep {
        ERR_clear_error()
        let status = SSL_do_handshake(pointer)
        hasPending = SSL_has_pending(pointer) == 1
        return status == 1 ? .done(0) : failure(of: status)
    }

    /// Decrypts into the buffer's room until it is full or nothing more has arrived. One system call where one record
    /// was waiting.
    public func read(into buffer: inout ByteBuffer) -> TLSStep {
        if hasDeferred {
            hasDeferred = false
            if let outcome = deferred.take() { return outcome }
        }
        var total = 0
        repeat {
            var count = 0
            ErrorQueue.forget()
            let status = buffer.withWritable { room in
                let status = SSL_read_ex(pointer, room.baseAddress, room.count, &count)
                return (count, status)
            }
            hasPending = SSL_has_pending(pointer) == 1
            guard status == 1 else {
                let outcome = failure(of: status)
                guard total > 0 else { return outcome == .wantRead && isBarren() ? giveUp() : outcome }
                // What was read before is handed out first. The end would be announced by nothing any more.
                if outcome != .wantRead {
                    deferred = outcome
                    hasDeferred = true
                }
                return .done(total)
            }
            total += count
            barrenSince = nil
        } while hasBufferedInput && buffer.room > 0
        return .done(total)
    }

    /// Whether too much has come that was no content: each record costs work, and nothing else bounds how many there are.
    private func isBarren() -> Bool {
        let come = BIO_number_read(SSL_get_rbio(pointer))
        guard let barrenSince else {
            barrenSince = come
            return false
        }
        return come - barrenSince > Self.mostBarrenOctets
    }

    private func giveUp() -> TLSStep {
        isBroken = true
        return .failed(.tls("too many records without content"))
    }

    /// Encrypts from the front of the buffer and consumes what was taken.
    public func write(from buffer: inout ByteBuffer) -> TLSStep {
        var total = 0
        while !buffer.isEmpty {
            var count = 0
            ErrorQueue.forget()
            let status = buffer.withUnsafeReadable { SSL_write_ex(pointer, $0.baseAddress, $0.count, &count) }
            guard status == 1 else { return failure(of: status) }
            buffer.consume(count)
            total += count
        }
        return .done(total)
    }

    /// Tells the peer that nothing more comes. Best effort: the socket's buffer may be full.
    public func sendCloseNotify() {
        guard !isBroken else { return }
        ERR_clear_error()
        _ = SSL_shutdown(pointer)
    }

    /// Whether bytes of the peer lie in OpenSSL's buffers, which no readiness event will announce.
    public var hasBufferedInput: Bool { hasDeferred || hasPending }

    public var isResumed: Bool { SSL_session_reused(pointer) == 1 }

    /// What the handshake has agreed on, by this connection's own offer, resumed or not; HTTP/1.1 where the client has said
    /// nothing. Nil if that is not spoken here. Server side only, once the handshake is complete.
    public var applicationProtocol: ApplicationProtocol? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(pointer, &name, &length)
        let protocols = server?.protocols ?? []
        // The shortest of the names: none of the others has two letters.
        guard length == 2 else { return protocols.contains(.http11) ? .http11 : nil }
        return .http2
    }

    /// Whether the server has agreed to speak HTTP/2, which it was offered. Client side only, once the handshake is complete: a
    /// server that knows no ALPN completes it too.
    public var hasAgreedOnHTTP2: Bool {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(pointer, &name, &length)
        // OpenSSL refuses a server that chooses what it was not offered.
        return length == 2
    }

    /// How the handshake has come to know the client, once it is complete. Server side only.
    public var recognition: Recognition {
        isResumed ? .session : record?.isChainKnown == true ? .knownChain : .verification
    }

    /// The client's certificate as it was verified, in this handshake or in the one being resumed. Server side only.
    public var clientIdentity: ClientIdentity? { ServerContext.identity(of: SSL_get_session(pointer)) }

    /// Ways to know a client, from the cheapest.
    public enum Recognition: Sendable {
        /// By a session it has resumed.
        case session
        /// By a certificate whose chain was verified before, for an earlier connection.
        case knownChain
        /// By its chain, or by none where none is asked for.
        case verification
    }

    private func failure(of status: Int32) -> TLSStep {
        switch SSL_get_error(pointer, status) {
        case SSL_ERROR_WANT_READ: return .wantRead
        case SSL_ERROR_WANT_WRITE: return .wantWrite
        case SSL_ERROR_ZERO_RETURN: return outgoing?.hasEnded ?? true ? .endOfStream : .failed(.disconnected)
        default:
            isBroken = true
            if let fault = record?.helloFault { return .failed(.tls(fault.reason)) }
            if let fault = record?.fault { return .failed(.clientCertificate(fault)) }
            if let fault = outgoing?.fault { return .failed(.tls(fault)) }
            return .failed(.fromQueue())
        }
    }
}

/// How one step of a TLS connection ended.
public enum TLSStep: Equatable, Sendable {
    /// The step is complete; for reads and writes, that many bytes moved (a handshake moves none).
    case done(Int)
    /// Wait until the socket can be read.
    case wantRead
    /// Wait until the socket can be written.
    case wantWrite
    /// The peer has ended the connection with close_notify.
    case endOfStream
    /// The connection is broken; nothing more can be read or written.
    case failed(TLSFailure)
}

/// Why a TLS connection broke.
public enum TLSFailure: Error, Equatable, Sendable {
    /// The client certificate was refused.
    case clientCertificate(ClientCertificateFault)
    /// The peer closed or reset the connection without close_notify.
    case disconnected
    /// The protocol failed; OpenSSL's reason.
    case tls(String)

    /// Reads OpenSSL's error queue of this thread.
    static func fromQueue() -> TLSFailure {
        let first = ERR_peek_error()
        if ag_err_get_lib(first) == ERR_LIB_SSL {
            switch ag_err_get_reason(first) {
            case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return .clientCertificate(.missing)
            case SSL_R_UNEXPECTED_EOF_WHILE_READING: return .disconnected
            default: break
            }
        }
        let reasons = CryptographyError.fromQueue(doing: "").reasons
        return reasons.isEmpty ? .disconnected : .tls(reasons.joined(separator: "; "))
    }
}

/// What the handshake leaves for the connection. Owned by the `TLSStream`; OpenSSL's connection refers to it.
final class HandshakeRecord {
    /// Keeps every context alive that the connection may be given to.
    let hosts: VirtualHosts
    /// Whose the connection is: that of everybody else, until the client has said what it asks for.
    private(set) var context: ServerContext
    /// What the client asked for; nil if for nothing, or that is not known yet.
    private(set) var serverName: ServerName?
    private(set) var isHostChosen = false
    var helloFault: ClientHelloFault?
    var fault: ClientCertificateFault?
    /// The client's chain had been verified before.
    var isChainKnown = false

    private static let index = ag_ssl_get_ex_new_index(nil)

    init(_ hosts: VirtualHosts) {
        self.hosts = hosts
        context = hosts.standard
    }

    func hostChosen(_ context: ServerContext, _ name: ServerName?) {
        self.context = context
        serverName = name
        isHostChosen = true
    }

    /// - Returns: false if there is no memory for it.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> HandshakeRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<HandshakeRecord>.fromOpaque($0).takeUnretainedValue() }
    }
}
