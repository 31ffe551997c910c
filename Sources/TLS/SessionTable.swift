internal import COpenSSL
internal import Glibc
internal import Synchronization

/// The sessions that clients may resume: one table for all workers, since the kernel may hand a client's next connection
/// to another one.
///
/// Bounded: each shard forgets its oldest session when it is full. OpenSSL checks a session's lifetime and its session id
/// context (which binds it to the listener and its trust); the table declines one whose certificate has expired, is revoked, not
/// pinned any more or of a barred key, so that the full handshake refuses it with the exact alert.
public final class SessionTable: Sendable {
    private struct Shard {
        var sessions: [SessionID: Session] = [:]
        /// Ids in the order they came, as a ring once the shard is full.
        var order: [SessionID] = []
        var oldest = 0
    }

    private let shards: [ShardBox]
    private let limitPerShard: Int

    private final class ShardBox: Sendable {
        let shard = Mutex(Shard())
    }

    /// - Parameter limit: how many sessions are kept. One takes about 1.5 KiB, 6.5 of TLS 1.2 (`LeanSession`).
    public init(limit: Int) {
        shards = (0..<16).map { _ in ShardBox() }
        limitPerShard = max(1, limit / 16)
    }

    /// Sessions kept now, those included that have expired since.
    public var count: Int {
        shards.reduce(0) { sum, box in sum + box.shard.withLock { $0.sessions.count } }
    }

    /// Takes over one reference to the session.
    func insert(_ session: OpaquePointer) {
        let session = Session(owning: session)
        guard let id = session.id else { return }
        let limit = limitPerShard
        shards[id.shard(of: shards.count)].shard.withLock { shard in
            guard shard.sessions.updateValue(session, forKey: id) == nil else { return }
            if shard.order.count < limit {
                shard.order.append(id)
            } else {
                shard.sessions[shard.order[shard.oldest]] = nil
                shard.order[shard.oldest] = id
                shard.oldest = (shard.oldest + 1) % limit
            }
        }
    }

    /// - Parameter admission: of the listener that asks, as it is now: a client that it does not let in any more must not
    ///   come back by an old session. Declined, it hears why in the full handshake.
    /// - Returns: the session with one more reference, which the caller takes over, or nil.
    func find(_ id: SessionID, admitting admission: ClientAdmission) -> OpaquePointer? {
        shards[id.shard(of: shards.count)].shard.withLock { shard in
            guard let session = shard.sessions[id], let identity = ServerContext.identity(of: session.pointer),
                admission.objection(to: identity, at: Int64(time(nil))) == nil
            else { return nil }
            SSL_SESSION_up_ref(session.pointer)
            return session.pointer
        }
    }
}

/// One reference to an OpenSSL session.
///
/// Unchecked because OpenSSL's pointer is not `Sendable` by itself: its reference count is atomic, and a session is not
/// changed any more once it is in the table.
private final class Session: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        SSL_SESSION_free(pointer)
    }

    var id: SessionID? {
        var length: UInt32 = 0
        guard let bytes = SSL_SESSION_get_id(pointer, &length) else { return nil }
        return SessionID(UnsafeBufferPointer(start: bytes, count: Int(length)))
    }
}

/// A session id: 32 bytes made by OpenSSL's random generator.
struct SessionID: Hashable {
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

    static func == (left: SessionID, right: SessionID) -> Bool { left.words == right.words }

    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
    }

    /// The bytes are random, so any of them spreads evenly.
    func shard(of count: Int) -> Int { Int(words.3 % UInt64(count)) }
}

/// Takes the client's certificates out of sessions: its own out of those of TLS 1.3, what it sent behind it out of all.
///
/// OpenSSL keeps them there, decoded, for as long as the session can be resumed and for as long as its connection lives: most of what a
/// session takes. Nothing asks for them any more once the chain was verified: all that counts is in the `ClientIdentity`. Nobody may ask
/// OpenSSL for the certificate or for the result of verification, which becomes "unspecified", after the handshake.
enum LeanSession {
    /// Drops what came behind the client's own certificate. Otherwise, certificates that nobody looks at would stay in
    /// memory.
    ///
    /// - Parameter connection: whose session nobody else can find yet; the list is its session's own.
    static func emptyChain(of connection: OpaquePointer?) {
        guard let chain = SSL_get_peer_cert_chain(connection) else { return }
        while let certificate = ag_sk_x509_pop(chain) { X509_free(certificate) }
    }

    /// Makes the session one that has never had a certificate.
    ///
    /// There is no call for it, but decoding into an existing session replaces its fields (d2i_X509(3)): so this decodes the encoding of
    /// another one, which has what RFC 8446 section 4.6.1 associates with a ticket (the secret, the cipher's hash, time and lifetime) and
    /// by what it is found. What is not encoded stays as it was: references, and the identity. How old a client says that its ticket is
    /// OpenSSL compares for early data alone, which is off.
    ///
    /// - Parameter session: as OpenSSL gives it to be kept: of a handshake whose proofs are done, and no other connection's yet.
    /// - Returns: false if there was no memory half-way, so that nothing must be resumed by it.
    static func strip(_ session: OpaquePointer) -> Bool {
        guard SSL_SESSION_get0_peer(session) != nil, SSL_SESSION_get_protocol_version(session) == TLS1_3_VERSION,
            let lean = SSL_SESSION_new()
        else { return true }
        defer { SSL_SESSION_free(lean) }
        // A bound on records is part of the session, and holds for the connection.
        guard SSL_SESSION_get_max_fragment_length(session) == SSL_SESSION_get_max_fragment_length(lean) else {
            return true
        }
        guard setSecret(of: lean, from: session), setNames(of: lean, from: session),
            SSL_SESSION_set_protocol_version(lean, TLS1_3_VERSION) == 1,
            SSL_SESSION_set_cipher(lean, SSL_SESSION_get0_cipher(session)) == 1
        else { return true }
        SSL_SESSION_set_time(lean, SSL_SESSION_get_time(session))
        SSL_SESSION_set_timeout(lean, SSL_SESSION_get_timeout(session))
        return decode(lean, into: session)
    }

    private static func setSecret(of lean: OpaquePointer, from session: OpaquePointer) -> Bool {
        // As long as the longest hash of a cipher (RFC 8446 section B.4).
        var secret = InlineArray<48, UInt8>(repeating: 0)
        var room = secret.mutableSpan
        return room.withUnsafeMutableBufferPointer { room in
            defer { OPENSSL_cleanse(room.baseAddress, room.count) }
            let length = SSL_SESSION_get_master_key(session, room.baseAddress, room.count)
            return length > 0 && SSL_SESSION_set1_master_key(lean, room.baseAddress, length) == 1
        }
    }

    /// Its id, and that of what it is bound to.
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
        // It holds the secret.
        defer { CRYPTO_clear_free(allocated, Int(length), nil, 0) }
        let start = allocated.bindMemory(to: UInt8.self, capacity: Int(length))
        encoding = start
        guard i2d_SSL_SESSION(lean, &encoding) == length else { return true }
        var place = UnsafePointer<UInt8>?(start)
        var decoded: OpaquePointer? = session
        return d2i_SSL_SESSION(&decoded, &place, Int(length)) == session
    }
}
