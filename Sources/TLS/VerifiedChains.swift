internal import Cryptography

/// The chains that one context has verified, by their leaf. A client that returns without a session need not be
/// verified again.
///
/// Belongs to a context, that is to one worker, one host of a listener and one generation of trust, and ends with it.
/// It contains only accepted chains, and an entry can only confirm: any present objection causes a new verification.
///
/// The key is SHA-256 of the certificate, its signature included, so a hit means that the client presented this very
/// certificate. OpenSSL always requires proof of its key (CertificateVerify). The intermediates that the client sends
/// do not matter: a path from this leaf to a trusted certificate was found once. Only time, a revocation list or other
/// trust can invalidate it. Time and lists are checked in every handshake (`ClientAdmission`), and other trust is
/// another context.
///
/// Bounded: an entry that was used since the last round gets a second chance (the clock algorithm). So leaves that come
/// once displace few that return. An entry takes about 0.7 KiB.
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

    /// The maximum for each host, listener and worker: 7 MiB, if so many clients come.
    private static let usualLimit = 10_000

    /// Creates an empty cache.
    ///
    /// - Parameter limit: the maximum number of chains, at least one.
    init(limit: Int = usualLimit) {
        self.limit = max(1, limit)
    }

    var count: Int { slots.count }

    /// Returns the identity of a known leaf, and marks it as used.
    func find(_ leaf: LeafDigest) -> ClientIdentity? {
        guard let place = places[leaf] else { return nil }
        slots[place].wasUsed = true
        return slots[place].identity
    }

    /// Stores the verified identity of a leaf, in place of an earlier one.
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

    /// Returns the entry to displace. Ends after two rounds at most, since the first may only remove second chances.
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
/// OpenSSL re-encodes the outermost layer, and keeps the signed part as received. Two encodings with one digest have
/// the same signed bytes and the same signature, so they are the same certificate.
struct LeafDigest: Hashable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(_ digest: Digest256) {
        let bytes = digest.span
        func word(_ at: Int) -> UInt64 { (at..<(at + 8)).reduce(0) { $0 << 8 | UInt64(bytes[$1]) } }
        words = (word(0), word(8), word(16), word(24))
    }

    static func == (left: LeafDigest, right: LeafDigest) -> Bool { left.words == right.words }

    /// Hashes with the process's seed: an issuer of certificates may choose digests that begin alike.
    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
        hasher.combine(words.2)
        hasher.combine(words.3)
    }
}
