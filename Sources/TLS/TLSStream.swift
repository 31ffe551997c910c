public import Bytes
internal import COpenSSL
internal import Cryptography

/// A TLS connection over a non-blocking socket: handshake, read, write, close.
///
/// Owns OpenSSL's connection object. The socket belongs to the caller, who closes it after releasing the stream.
public final class TLSStream {
    private let pointer: OpaquePointer
    private let record: HandshakeRecord?
    /// The record of an outgoing connection.
    private let outgoing: DestinationRecord?
    /// The hosts of the listener. Nil on the client side.
    public var hosts: VirtualHosts? { record?.hosts }
    /// The host that serves the connection. Nil on the client side.
    public var server: ServerContext? { record?.context }
    /// The host name that the client asked for. Nil if there is none, or before it is known.
    public var serverName: ServerName? { record?.serverName }
    /// Whether a fatal error has occurred. Nothing may be called on the connection afterwards, close_notify included.
    private var isBroken = false
    /// The result of a read that followed the returned bytes.
    private var deferred: TLSStep?
    /// Whether there is a deferred result. A step may hold text, and testing the property would cost as much as a copy.
    private var hasDeferred = false
    /// Whether OpenSSL has read more than was returned. Only the handshake and reads change that.
    private var hasPending = false
    /// The bytes received from the socket at the first read without content since the last content. Nil if there was
    /// none.
    private var barrenSince: UInt64?
    /// The maximum bytes of tickets, key updates and refused handshakes between content. These are thousands of
    /// messages, where a well-behaved peer sends two or three, and some 50 ms of work. An unfinished record has a
    /// sixteenth of it.
    private static let mostBarrenBytes: UInt64 = 262_144

    /// Sets the modes that a stream requires of its context, in either role.
    static func setModes(of context: OpaquePointer) {
        // Partial writes: one record at a time leaves the buffer, wherever it now is. Buffers are freed when idle.
        _ = ag_ssl_ctx_set_mode(
            context,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS))
        // Otherwise one SSL_read would last for as long as the peer sends tickets or key updates, and block its thread.
        _ = ag_ssl_ctx_clear_mode(context, Int(SSL_MODE_AUTO_RETRY))
        // One recv for a whole record, instead of one for its header and one for its body.
        ag_ssl_ctx_set_read_ahead(context, 1)
    }

    /// Creates the server side of an accepted connection.
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

    /// Creates the client side of an opened connection.
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
        // OpenSSL considers a session unusable if its connection is freed without close_notify. But phones leave
        // networks without it, and TLS has not required this since RFC 5246 (section 7.2.1). After a protocol failure,
        // OpenSSL has dropped the session already.
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

    /// Decrypts into the buffer's room until it is full or no more has arrived. Takes one system call for one record.
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
                // Bytes read before are returned first. No event would announce the end later.
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

    /// Returns whether too many records without content have arrived. Each costs work, and nothing else limits their
    /// number.
    private func isBarren() -> Bool {
        let come = BIO_number_read(SSL_get_rbio(pointer))
        guard let barrenSince else {
            barrenSince = come
            return false
        }
        return come - barrenSince > Self.mostBarrenBytes
    }

    private func giveUp() -> TLSStep {
        isBroken = true
        return .failed(.tls("too many records without content"))
    }

    /// Encrypts from the front of the buffer and consumes the encrypted bytes.
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

    /// Sends close_notify. Best effort: the socket's buffer may be full.
    public func sendCloseNotify() {
        guard !isBroken else { return }
        ERR_clear_error()
        _ = SSL_shutdown(pointer)
    }

    /// Whether OpenSSL's buffers hold bytes of the peer that no readiness event will announce.
    public var hasBufferedInput: Bool { hasDeferred || hasPending }

    public var isResumed: Bool { SSL_session_reused(pointer) == 1 }

    /// The negotiated protocol, of a full or resumed handshake. HTTP/1.1 if the client has offered nothing. Nil if that
    /// is not supported here. Server side only, after the handshake.
    public var applicationProtocol: ApplicationProtocol? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(pointer, &name, &length)
        let protocols = server?.protocols ?? []
        // The shortest of the names: none of the others has two letters.
        guard length == 2 else { return protocols.contains(.http11) ? .http11 : nil }
        return .http2
    }

    /// Whether the server has accepted HTTP/2. Client side only, after the handshake: a server without ALPN completes
    /// it too.
    public var hasAgreedOnHTTP2: Bool {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(pointer, &name, &length)
        // OpenSSL refuses a server that chooses a protocol without an offer.
        return length == 2
    }

    /// The way in which the handshake recognised the client. Server side only, after the handshake.
    public var recognition: Recognition {
        if isResumed { return .session }
        guard clientIdentity != nil else { return .noCertificate }
        return record?.isChainKnown == true ? .knownChain : .verification
    }

    /// The group of the key exchange, also of a resumed handshake. Nil if it exchanged no keys. After the handshake.
    public var keyExchange: KeyExchange? { KeyExchange(of: pointer) }

    /// The verified certificate of the client, from this handshake or from the resumed one. Server side only.
    public var clientIdentity: ClientIdentity? { ServerContext.identity(of: SSL_get_session(pointer)) }

    /// Removes the session of the connection, and the one that it resumed. The client's next handshake is then a full
    /// one, in which it can present a certificate. Server side only.
    public func forgetSession() {
        guard let sessions = server?.sessions else { return }
        for id in [record?.offeredSession, SessionID(of: SSL_get_session(pointer))] {
            if let id { sessions.remove(id) }
        }
    }

    /// The ways to recognise a client, from the cheapest.
    public enum Recognition: Sendable {
        /// A resumed session.
        case session
        /// No certificate was presented: it is optional, or not requested.
        case noCertificate
        /// A certificate whose chain was verified for an earlier connection.
        case knownChain
        /// A verified chain.
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

/// The result of one step of a TLS connection.
public enum TLSStep: Equatable, Sendable {
    /// The step is complete. For reads and writes, the number of bytes moved; a handshake moves none.
    case done(Int)
    /// The step must wait until the socket is readable.
    case wantRead
    /// The step must wait until the socket is writable.
    case wantWrite
    /// The peer has ended the connection with close_notify.
    case endOfStream
    /// The connection is broken; nothing more can be read or written.
    case failed(TLSFailure)
}

/// The reason why a TLS connection broke.
public enum TLSFailure: Error, Equatable, Sendable {
    /// The client certificate was refused.
    case clientCertificate(ClientCertificateFault)
    /// The peer closed or reset the connection without close_notify.
    case disconnected
    /// The protocol failed, for OpenSSL's reason.
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

/// The results of the handshake for the connection. Owned by the `TLSStream`; OpenSSL's connection refers to it.
final class HandshakeRecord {
    /// Retains every context that the connection may move to.
    let hosts: VirtualHosts
    /// The context of the connection: the default one, until the client has named a host.
    private(set) var context: ServerContext
    /// The host name that the client asked for. Nil if there is none, or before it is known.
    private(set) var serverName: ServerName?
    private(set) var isHostChosen = false
    var helloFault: ClientHelloFault?
    var fault: ClientCertificateFault?
    /// Whether the client's chain had been verified before.
    var isChainKnown = false
    /// The session that the client offered, if it was found.
    var offeredSession: SessionID?
    /// The time of the full handshake behind the session that the client offered, in seconds since 1970. Nil if none
    /// was found.
    var fullHandshakeTime: Int?

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

    /// Attaches the record to a connection.
    ///
    /// - Returns: false if memory is exhausted.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> HandshakeRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<HandshakeRecord>.fromOpaque($0).takeUnretainedValue() }
    }
}
