public import RequestProof
public import Vocabulary

/// A challenge of the gateway's, and when it came. It is good for many proofs while it is fresh.
public struct ReceivedChallenge: Equatable, Sendable {
    /// What is asked for, the challenge itself in `nonce`.
    public let request: AcceptSignature
    /// By this device's clock, in seconds since 1970.
    public let receivedAt: Int64

    public init(_ request: AcceptSignature, receivedAt: Int64) {
        self.request = request
        self.receivedAt = receivedAt
    }

    /// Seconds since it came; negative if the clock was set back since.
    public func age(now: Int64) -> Int64 { now - receivedAt }

    /// Whether this key can make what is asked for (RFC 9421 section 5.2: a signer that cannot does not sign).
    public func isFor(_ keyID: KeyID) -> Bool {
        (request.keyID ?? keyID) == keyID && (request.algorithm ?? .appleAttest) == .appleAttest
    }
}
