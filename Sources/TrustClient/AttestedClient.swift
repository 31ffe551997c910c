public import RequestProof
public import Vocabulary

/// A client that sends requests with proofs over the app's HTTP library. Create one for each gateway. Any number of
/// tasks may use it.
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
    /// A response and its parsed statements about proofs.
    public typealias Answered<Response: Sendable> = (answer: GatewayAnswer, response: Response)

    private let key: Key
    private let clock: @Sendable () -> Int64
    private var session: ProofSession

    /// Creates a client.
    ///
    /// - Parameter clock: Returns the time in seconds since 1970.
    public init(key: Key, clock: @escaping @Sendable () -> Int64) {
        self.key = key
        self.clock = clock
        session = ProofSession(keyID: key.keyID)
    }

    /// Makes a proof and sends the request. It does both a second time if that is safe and may help.
    ///
    /// - Parameters:
    ///   - isIdempotent: Whether the request may be sent again although it may have been executed.
    ///   - fetchChallenge: Gets `ProofSession.challengePath` of the same authority, without a proof.
    ///   - send: Sends the request with these fields, over TLS with the client certificate.
    /// - Throws: the errors of closures and key, `ProofFault` if no proof can be made, or `AttestedClientError` without
    ///   a challenge.
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
                // A response is delivered only after a request was sent.
                guard let last else { preconditionFailure("an exchange ended before its request was sent") }
                return last
            }
        }
    }
}

public enum AttestedClientError: Error, Equatable, Sendable {
    /// The gateway gave no challenge that this key can answer. The value is its answer.
    case noChallenge(GatewayAnswer)
}

/// The state of a client between requests: the newest challenge and the offset of its clock.
///
/// Times are seconds since 1970 by this device's clock, unless stated otherwise.
public struct ProofSession: Equatable, Sendable {
    /// The path at which a gateway gives a challenge to a client with a certificate. Its status is 204 or 200, with
    /// Accept-Signature.
    public static let challengePath = "/.well-known/attestgate/challenge"
    /// The age in seconds up to which a challenge is used without requesting a new one. Gateways accept 300 s by
    /// default. If one refuses the challenge, that costs one more request.
    public static let refreshAge: Int64 = 240

    public let keyID: KeyID
    /// The algorithm by which the key signs.
    public let algorithm: ProofAlgorithm
    /// The newest challenge, which may be too old.
    public private(set) var challenge: ReceivedChallenge?
    /// The gateway's clock minus this device's clock, in seconds.
    public private(set) var clockOffset: Int64 = 0

    /// Creates a session.
    ///
    /// - Parameter challenge: A challenge that was stored in an earlier run.
    public init(
        keyID: KeyID, algorithm: ProofAlgorithm = .appleAttest, challenge: ReceivedChallenge? = nil
    ) {
        self.keyID = keyID
        self.algorithm = algorithm
        self.challenge = challenge
    }

    /// Stores the new challenge of a response, if it has one.
    ///
    /// - Returns: whether the response has a challenge that this key can answer.
    @discardableResult
    public mutating func note(_ answer: GatewayAnswer, now: Int64) -> Bool {
        guard let request = answer.challenge else { return false }
        let received = ReceivedChallenge(request, receivedAt: now)
        guard received.isFor(keyID, algorithm) else { return false }
        challenge = received
        return true
    }

    /// Returns the challenge for the next proof, or nil if a new one must be fetched.
    public func usableChallenge(now: Int64) -> ReceivedChallenge? {
        guard let challenge, (0..<Self.refreshAge).contains(challenge.age(now: now)) else { return nil }
        return challenge
    }

    /// Adopts the gateway's time. Only for a gateway that called the proof stale over an authenticated connection.
    mutating func correctClock(by date: Int64, now: Int64) {
        clockOffset = date - now
    }

    /// Returns the time of creation for a proof made now, by the gateway's clock.
    public func created(now: Int64) -> Int64 { max(0, now + clockOffset) }
}
