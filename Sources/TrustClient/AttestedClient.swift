public import Vocabulary

/// Sends requests with proofs over whatever HTTP library the app has. One for each gateway, used by any number of tasks.
///
/// ```swift
/// let client = AttestedClient(key: key, clock: { Int64(Date().timeIntervalSince1970) })
/// let request = try AttestedRequest(method: "GET", target: target)
/// let record = try await client.perform(
///     request, isIdempotent: true,
///     fetchChallenge: { try await session.answer(to: challengeRequest) },
///     send: { fields in try await session.answer(to: urlRequest, adding: fields.lines) })
/// ```
public actor AttestedClient<Key: HardwareKey> {
    /// A response, and what it says about proofs.
    public typealias Answered<Response: Sendable> = (answer: GatewayAnswer, response: Response)

    private let key: Key
    private let clock: @Sendable () -> Int64
    private var session: ProofSession

    /// - Parameter clock: the time in seconds since 1970.
    public init(key: Key, clock: @escaping @Sendable () -> Int64) {
        self.key = key
        self.clock = clock
        session = ProofSession(keyID: key.keyID)
    }

    /// Makes the proof, sends the request, and does both once more where that is safe and promises to help.
    ///
    /// - Parameters:
    ///   - isIdempotent: whether the request may be sent again although it may have been executed.
    ///   - fetchChallenge: gets `ProofSession.challengePath` of the same authority, without a proof.
    ///   - send: sends the request with these fields, over TLS with the client certificate.
    /// - Throws: what the closures and the key throw; `ProofFault` if the request cannot be proven;
    ///   `AttestedClientError` without a challenge.
    public func perform<Response: Sendable>(
        _ request: AttestedRequest, isIdempotent: Bool = false,
        fetchChallenge: @Sendable () async throws -> GatewayAnswer,
        send: @Sendable (ProofFields) async throws -> Answered<Response>
    ) async throws -> Response {
        var exchange = ProofExchange(isIdempotent: isIdempotent)
        var action = exchange.begin(session, now: clock())
        var last: Response?
        while true {
            switch action {
            case .fetchChallenge:
                let answer = try await fetchChallenge()
                action = exchange.challengeAnswered(answer, &session, now: clock())
                if action == .fail { throw AttestedClientError.noChallenge(answer) }
            case .send(let challenge, let created):
                let draft = try ProofDraft(request, answering: challenge, keyID: key.keyID, created: created)
                let assertion = try await key.assertion(clientDataHash: draft.clientDataHash)
                let answered = try await send(try draft.fields(assertion: assertion))
                last = answered.response
                action = exchange.answered(answered.answer, &session, now: clock())
            case .deliver, .fail:
                // Nothing is delivered before something was sent.
                guard let last else { preconditionFailure("an exchange ended before its request was sent") }
                return last
            }
        }
    }
}

public enum AttestedClientError: Error, Equatable, Sendable {
    /// The gateway gave no challenge that this key can answer; this is what it said instead.
    case noChallenge(GatewayAnswer)
}

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
