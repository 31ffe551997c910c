internal import COpenSSL
internal import Glibc
internal import Synchronization

/// The sessions that clients may resume, in one table for all workers, because the kernel may give a client's next
/// connection to another worker; and the secrets of encrypted tickets (`SessionTickets`), which need no place in it.
///
/// Bounded: each shard drops its oldest session when it is full. Sessions without an identity have places of their own:
/// everybody can make them where certificates are optional, and they must not displace those of known clients.
///
/// Which sessions come here: `SessionTickets`. OpenSSL checks a session's lifetime and its session id context, which
/// binds it to the listener and its trust. The table declines a session whose certificate is expired, revoked or no
/// longer pinned, or whose key is barred. The full handshake then refuses it with the exact alert. A session of a client
/// without a certificate is found only where certificates are optional.
public final class SessionTable: Sendable {
    private struct Shard {
        var sessions: [SessionID: Session] = [:]
        /// The order of sessions with an identity, and of those without.
        var identified = InsertionOrder()
        var anonymous = InsertionOrder()
    }

    /// The ids in the order of insertion, as a ring once it is full.
    private struct InsertionOrder {
        private var ids: [SessionID] = []
        private var oldest = 0

        /// Adds an id.
        ///
        /// - Returns: the oldest id, whose place it takes. Nil if there is another place.
        mutating func add(_ id: SessionID, limit: Int) -> SessionID? {
            guard ids.count >= limit else {
                ids.append(id)
                return nil
            }
            let last = ids[oldest]
            ids[oldest] = id
            oldest = (oldest + 1) % limit
            return last
        }
    }

    private let shards: [ShardBox]
    private let limitPerShard: Int
    /// The sessions with an identity for each one without.
    private static let identifiedPerAnonymous = 4

    private final class ShardBox: Sendable {
        let shard = Mutex(Shard())
    }

    /// What the sessions are of: those of one kind of listener are unknown to another kind.
    let purpose: String
    /// The secret of tickets that no other process reads.
    private let own: [UInt8]
    private let shared: Mutex<[[UInt8]]>
    private let version = Atomic<Int>(0)

    /// Creates an empty table. Its tickets can be read in this process alone, until secrets are shared.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of sessions with an identity; a quarter of it is for those without, in addition.
    ///     One takes about 1.5 KiB, and 6.5 KiB with TLS 1.2 (`LeanSession`).
    ///   - purpose: what the sessions are of. Tickets of another purpose lead to a full handshake.
    public init(limit: Int, purpose: String = "listener") {
        shards = (0..<16).map { _ in ShardBox() }
        limitPerShard = max(1, limit / 16)
        self.purpose = purpose
        var random = SystemRandomNumberGenerator()
        own = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
        shared = Mutex([own])
    }

    /// Uses these secrets for tickets from now on.
    ///
    /// - Parameter secrets: at least one, each of 32 unpredictable bytes. The first encrypts; all decrypt. Nil for the
    ///   one of this process: tickets of secrets that were shared before are read no more.
    public func share(_ secrets: [[UInt8]]?) {
        let secrets = secrets ?? [own]
        precondition(!secrets.isEmpty && secrets.allSatisfy { $0.count == 32 }, "secrets of 32 bytes")
        shared.withLock { shared in
            guard shared != secrets else { return }
            shared = secrets
            version.add(1, ordering: .releasing)
        }
    }

    var secrets: [[UInt8]] { shared.withLock { $0 } }

    /// Grows with each change of the secrets.
    var secretsVersion: Int { version.load(ordering: .acquiring) }

    /// The number of sessions, including expired ones that are still stored.
    public var count: Int {
        shards.reduce(0) { sum, box in sum + box.shard.withLock { $0.sessions.count } }
    }

    /// Inserts a session, and takes over one reference to it.
    func insert(_ session: OpaquePointer) {
        let session = Session(owning: session)
        guard let id = session.id else { return }
        let isIdentified = ServerContext.identity(of: session.pointer) != nil
        let limit = isIdentified ? limitPerShard : max(1, limitPerShard / Self.identifiedPerAnonymous)
        shards[id.shard(of: shards.count)].shard.withLock { shard in
            guard shard.sessions.updateValue(session, forKey: id) == nil else { return }
            let displaced =
                isIdentified
                ? shard.identified.add(id, limit: limit) : shard.anonymous.add(id, limit: limit)
            if let displaced { shard.sessions[displaced] = nil }
        }
    }

    /// Removes a session, so that its client makes a full handshake.
    func remove(_ id: SessionID) {
        // The id stays in the order, whose turn then removes nothing.
        _ = shards[id.shard(of: shards.count)].shard.withLock { $0.sessions.removeValue(forKey: id) }
    }

    /// Returns a session if its client is still admitted. A declined client gets the reason in the full handshake.
    ///
    /// - Parameter admission: the present rules of the listener.
    /// - Returns: the session with one more reference, which the caller takes over, or nil.
    func find(_ id: SessionID, admitting admission: ClientAdmission) -> OpaquePointer? {
        shards[id.shard(of: shards.count)].shard.withLock { shard in
            guard let session = shard.sessions[id] else { return nil }
            if let identity = ServerContext.identity(of: session.pointer) {
                guard admission.objection(to: identity, at: Int64(time(nil))) == nil else { return nil }
            } else {
                guard admission.isOptional else { return nil }
            }
            SSL_SESSION_up_ref(session.pointer)
            return session.pointer
        }
    }
}

/// One reference to an OpenSSL session.
///
/// Unchecked because OpenSSL's pointer is not `Sendable` by itself: its reference count is atomic, and a session in the
/// table does not change.
private final class Session: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        SSL_SESSION_free(pointer)
    }

    var id: SessionID? { SessionID(of: pointer) }
}

/// A session id: 32 bytes from OpenSSL's random generator.
struct SessionID: Hashable {
    static let length = 32

    private let words: (UInt64, UInt64, UInt64, UInt64)

    init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard bytes.count == 32 else { return nil }
        let raw = UnsafeRawBufferPointer(bytes)
        words = (
            raw.loadUnaligned(as: UInt64.self), raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
            raw.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
            raw.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
        )
    }

    /// Returns the id of a session, or nil if it has none that is looked up.
    init?(of session: OpaquePointer?) {
        var length: UInt32 = 0
        guard let session, let bytes = SSL_SESSION_get_id(session, &length) else { return nil }
        self.init(UnsafeBufferPointer(start: bytes, count: Int(length)))
    }

    static func == (left: SessionID, right: SessionID) -> Bool { left.words == right.words }

    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
    }

    /// Returns the shard of the id. The bytes are random, so any of them distributes evenly.
    fileprivate func shard(of count: Int) -> Int { Int(words.3 % UInt64(count)) }
}

/// Removes client certificates from sessions: all of them with TLS 1.3, and those behind the leaf with TLS 1.2.
///
/// OpenSSL keeps them, decoded, for as long as the session can be resumed or its connection lives. They are most of a
/// session's memory. They have no use after the verification: the `ClientIdentity` has everything. After the handshake,
/// nothing may ask OpenSSL for the certificate or for the result of the verification, which becomes "unspecified".
enum LeanSession {
    /// Drops the certificates behind the client's own, which would stay in memory without a use.
    ///
    /// - Parameter connection: a connection whose session is not shared yet. The list belongs to that session alone.
    static func emptyChain(of connection: OpaquePointer?) {
        guard let chain = SSL_get_peer_cert_chain(connection) else { return }
        while let certificate = ag_sk_x509_pop(chain) { X509_free(certificate) }
    }

    /// Replaces the session's content by that of a session without certificates.
    ///
    /// OpenSSL has no call for it, but decoding into an existing session replaces its fields (d2i_X509(3)). So this
    /// function decodes the encoding of a new session. That session has the data that RFC 8446 section 4.6.1 associates
    /// with a ticket (the secret, the cipher's hash, time and lifetime) and its ids. Fields that are not encoded stay:
    /// references and the identity. OpenSSL compares the client's statement of a ticket's age only for early data,
    /// which is off.
    ///
    /// - Parameter session: a session that OpenSSL passes on to be kept. Its handshake is verified, and no other
    ///   connection has it yet.
    /// - Returns: false if memory was exhausted half-way. The session must not be resumed then.
    static func strip(_ session: OpaquePointer) -> Bool {
        guard SSL_SESSION_get0_peer(session) != nil, SSL_SESSION_get_protocol_version(session) == TLS1_3_VERSION,
            let lean = SSL_SESSION_new()
        else { return true }
        defer { SSL_SESSION_free(lean) }
        // A limit on records is part of the session, and applies to the connection.
        guard SSL_SESSION_get_max_fragment_length(session) == SSL_SESSION_get_max_fragment_length(lean) else {
            return true
        }
        guard setSecret(of: lean, from: session), setNames(of: lean, from: session),
            SSL_SESSION_set_protocol_version(lean, TLS1_3_VERSION) == 1,
            SSL_SESSION_set_cipher(lean, SSL_SESSION_get0_cipher(session)) == 1
        else { return true }
        // Its time is the present, which OpenSSL has just set in the session of a new ticket.
        SSL_SESSION_set_timeout(lean, SSL_SESSION_get_timeout(session))
        return decode(lean, into: session)
    }

    private static func setSecret(of lean: OpaquePointer, from session: OpaquePointer) -> Bool {
        // The length of the longest hash of a cipher (RFC 8446 section B.4).
        var secret = InlineArray<48, UInt8>(repeating: 0)
        var room = secret.mutableSpan
        return room.withUnsafeMutableBufferPointer { room in
            defer { OPENSSL_cleanse(room.baseAddress, room.count) }
            let length = SSL_SESSION_get_master_key(session, room.baseAddress, room.count)
            return length > 0 && SSL_SESSION_set1_master_key(lean, room.baseAddress, length) == 1
        }
    }

    /// Copies the session id and the session id context.
    private static func setNames(of lean: OpaquePointer, from session: OpaquePointer) -> Bool {
        var (idLength, contextLength): (UInt32, UInt32) = (0, 0)
        guard let id = SSL_SESSION_get_id(session, &idLength),
            let context = SSL_SESSION_get0_id_context(session, &contextLength)
        else { return false }
        return SSL_SESSION_set1_id(lean, id, idLength) == 1
            && SSL_SESSION_set1_id_context(lean, context, contextLength) == 1
    }

    private static func decode(_ lean: OpaquePointer, into session: OpaquePointer) -> Bool {
        var encoding: UnsafeMutablePointer<UInt8>?
        let length = i2d_SSL_SESSION(lean, nil)
        guard length > 0, let allocated = CRYPTO_malloc(Int(length), nil, 0) else { return true }
        // It contains the secret.
        defer { CRYPTO_clear_free(allocated, Int(length), nil, 0) }
        let start = allocated.bindMemory(to: UInt8.self, capacity: Int(length))
        encoding = start
        guard i2d_SSL_SESSION(lean, &encoding) == length else { return true }
        var place = UnsafePointer<UInt8>?(start)
        var decoded: OpaquePointer? = session
        return d2i_SSL_SESSION(&decoded, &place, Int(length)) == session
    }
}
