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
