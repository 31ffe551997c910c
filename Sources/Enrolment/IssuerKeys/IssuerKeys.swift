internal import Attestation
internal import Upstream

/// The answer to which keys an issuer has at present.
enum IssuerKeys {
    /// Keys of files, each of which may have signed a token.
    case listed([JWSVerificationKey])
    /// - mayBeOlder: Whether the issuer may have a key that was not fetched yet. A fetch for it is allowed.
    case fetched(JWKSet, mayBeOlder: Bool)
    /// No key was fetched yet, or not for too long.
    case unavailable

    /// The number of seconds after which a phone may try again without any keys.
    static let retryAfter = 60
    /// The number of seconds after which a phone may try again while an unknown key is fetched.
    static let retryAfterFetch = 5
}

/// The keys of the issuer that were fetched last. It is a value whose caller passes the time.
///
/// Belongs to the thread of the keys' library context.
public struct IssuerKeyRecord {
    /// The last set that was accepted.
    struct Kept {
        var keys: JWKSet
        var text: [UInt8]
        /// The time at which the source last said that these are its keys, in seconds since 1970.
        var confirmedAt: Int64
        var validators = ContentValidators()
    }

    /// The URL from which the keys come. Nil if none are fetched.
    var source: String?
    /// The maximum age of the keys in seconds.
    var staleAfter: Int64 = 0
    /// Nil until there are keys.
    var kept: Kept?
    /// The time of the last fetch, whatever its result, in seconds since 1970.
    var fetchedAt: Int64?
    /// Whether a token had an unknown `kid` since the last fetch.
    var isWanted = false

    /// The minimum time between two fetches that tokens cause, in seconds.
    private static let pause: Int64 = 60

    /// Creates a record without keys, where none are fetched.
    public init() {}

    init(source: String, staleAfter: Int64 = 0) {
        self.source = source
        self.staleAfter = staleAfter
    }

    /// Returns the keys.
    ///
    /// - Parameters:
    ///   - source: The URL from which the caller's rules want them.
    ///   - now: The time in seconds since 1970.
    func keys(from source: String, at now: Int64) -> IssuerKeys {
        guard source == self.source, let kept, !isStale(at: now) else { return .unavailable }
        return .fetched(kept.keys, mayBeOlder: mayFetch(at: now))
    }

    /// Returns whether the keys are too old. False if there are none. Keys from the future count for the same time.
    func isStale(at now: Int64) -> Bool { kept.map { abs(now - $0.confirmedAt) > staleAfter } ?? false }

    /// Returns whether a token with an unknown `kid` may cause a fetch.
    func mayFetch(at now: Int64) -> Bool { fetchedAt.map { abs(now - $0) >= Self.pause } ?? true }

    /// Returns the number of seconds since the keys were confirmed. Nil if there are none.
    func age(at now: Int64) -> Int64? { kept.map { max(0, now - $0.confirmedAt) } }
}
