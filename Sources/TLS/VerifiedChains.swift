internal import Cryptography

/// The chains that one context has verified, by their leaf: its client need not be verified again when it comes back without a
/// session.
///
/// Belongs to a context, that is to one worker, one host of a listener and one generation of trust, and goes with it. Only what was
/// accepted is in it, and an entry can only say yes: whatever speaks against it now sends the chain through verification again.
///
/// The key is SHA-256 of the certificate, its signature included: who finds an entry has presented that very certificate. That
/// he has its key OpenSSL makes him prove as ever (CertificateVerify). Which intermediates he sends does not matter: that a
/// path leads from this leaf to what is trusted was seen once, and only time, a revocation list or other trust can end it.
/// Time and lists are asked for every handshake (`ClientAdmission`), and other trust is another context.
///
/// Bounded: an entry used since the hand came by gets a second chance (the clock algorithm), so leaves that come once push
/// out few that come again. An entry takes about 0.7 KiB.
final class VerifiedChains {
    private struct Slot {
        var leaf: LeafDigest
        var identity: ClientIdentity
        var wasUsed: Bool
    }

    private var slots: [Slot] = []
    private var places: [LeafDigest: Int] = [:]
    private var hand = 0
    private let limit: Int

    /// For each host, listener and worker: 7 MiB, if so many clients come.
    static let usualLimit = 10_000

    /// - Parameter limit: how many are kept, at least one.
    init(limit: Int = usualLimit) {
        self.limit = max(1, limit)
    }

    var count: Int { slots.count }

    /// Who presented this leaf before; counted as used.
    func find(_ leaf: LeafDigest) -> ClientIdentity? {
        guard let place = places[leaf] else { return nil }
        slots[place].wasUsed = true
        return slots[place].identity
    }

    /// Keeps what the verification has said of the leaf, in place of what it said before.
    func insert(_ leaf: LeafDigest, _ identity: ClientIdentity) {
        let new = Slot(leaf: leaf, identity: identity, wasUsed: false)
        if let place = places[leaf] {
            slots[place] = new
        } else if slots.count < limit {
            places[leaf] = slots.count
            slots.append(new)
        } else {
            let place = victim()
            places[slots[place].leaf] = nil
            places[leaf] = place
            slots[place] = new
        }
    }

    /// Ends after two rounds at the latest: the first may only take second chances away.
    private func victim() -> Int {
        while true {
            let place = hand
            hand = (hand + 1) % slots.count
            guard slots[place].wasUsed else { return place }
            slots[place].wasUsed = false
        }
    }
}

/// SHA-256 of a certificate's DER encoding.
///
/// OpenSSL rewrites the outermost layer of the encoding, and keeps the signed part as it came: two encodings with one
/// digest have the same signed octets and the same signature, so they are the same certificate.
struct LeafDigest: Hashable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(_ digest: Digest256) {
        let bytes = digest.span
        func word(_ at: Int) -> UInt64 { (at..<(at + 8)).reduce(0) { $0 << 8 | UInt64(bytes[$1]) } }
        words = (word(0), word(8), word(16), word(24))
    }

    static func == (left: LeafDigest, right: LeafDigest) -> Bool { left.words == right.words }

    /// Hashed with the process's seed: an issuer of certificates may choose digests that begin alike.
    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}
