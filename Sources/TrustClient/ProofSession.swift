public import Vocabulary

/// What a client keeps between requests: the newest challenge, and how far its clock is off.
///
/// All times are seconds since 1970, by this device's clock where nothing else is said.
public struct ProofSession: Equatable, Sendable {
    /// Where a gateway gives a challenge to a client with a certificate: status 204 or 200, with Accept-Signature.
    public static let challengePath = "/.well-known/attestgate/challenge"
    /// How old a challenge may be to be used without asking for a new one. Gateways take them for 300 s unless configured
    /// otherwise; what they refuse costs one more request.
    public static let challengeLife: Int64 = 240

    public let keyID: KeyID
    /// The newest, fresh or not.
    public private(set) var challenge: ReceivedChallenge?
    /// What is to be added to this device's clock to have the gateway's.
    public private(set) var clockOffset: Int64 = 0

    /// - Parameter challenge: one that was kept from an earlier run.
    public init(keyID: KeyID, challenge: ReceivedChallenge? = nil) {
        self.keyID = keyID
        self.challenge = challenge
    }

    /// Takes what any response may carry: a new challenge.
    ///
    /// - Returns: whether there was one that this key can answer.
    @discardableResult
    public mutating func note(_ answer: GatewayAnswer, now: Int64) -> Bool {
        guard let request = answer.challenge else { return false }
        let received = ReceivedChallenge(request, receivedAt: now)
        guard received.isFor(keyID) else { return false }
        challenge = received
        return true
    }

    /// The challenge to prove with; nil if a new one is to be fetched.
    public func usableChallenge(now: Int64) -> ReceivedChallenge? {
        guard let challenge, (0..<Self.challengeLife).contains(challenge.age(now: now)) else { return nil }
        return challenge
    }

    /// Believes the gateway's time. Only for a gateway that has said the proof was stale, over an authenticated
    /// connection.
    mutating func correctClock(by date: Int64, now: Int64) {
        clockOffset = date - now
    }

    /// When a proof made now was created, by the gateway's clock.
    public func created(now: Int64) -> Int64 { max(0, now + clockOffset) }
}
