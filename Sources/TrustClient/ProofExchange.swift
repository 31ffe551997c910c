public import RequestProof
public import Vocabulary

/// The state machine of one request with its proof, from the first challenge to the final response. It performs no I/O.
///
/// A request is sent at most twice. After `challenge_required` and `proof_stale` nothing was executed, and a new proof
/// helps. After `counter_replayed` and `counter_late` the request may have been executed, so only an idempotent one is
/// sent again. A new proof does not help against other denials.
public struct ProofExchange: Equatable, Sendable {
    public enum Action: Equatable, Sendable {
        /// Get `ProofSession.challengePath` of the same authority, then call `challengeAnswered`.
        case fetchChallenge
        /// Send the request with a new proof for this challenge and this `created`, then call `answered`.
        case send(ReceivedChallenge, created: Int64)
        /// The last response is the final one.
        case deliver
        /// The gateway gave no challenge that this key can answer. Its last answer states the reason.
        case fail
    }

    private enum State: Equatable {
        case begun
        case fetching
        case sent(isRepeated: Bool)
        case over
    }

    private let isIdempotent: Bool
    private var state = State.begun

    /// Creates an exchange.
    ///
    /// - Parameter isIdempotent: Whether executing the request twice has the same effect as once.
    public init(isIdempotent: Bool) {
        self.isIdempotent = isIdempotent
    }

    /// Begins the exchange.
    ///
    /// - Parameter now: The time by this device's clock in seconds since 1970, as in the methods below.
    public mutating func begin(_ session: ProofSession, now: Int64) -> Action {
        guard let challenge = session.usableChallenge(now: now) else {
            state = .fetching
            return .fetchChallenge
        }
        state = .sent(isRepeated: false)
        return .send(challenge, created: session.created(now: now))
    }

    /// Handles the answer of the challenge endpoint.
    public mutating func challengeAnswered(
        _ answer: GatewayAnswer, _ session: inout ProofSession, now: Int64
    ) -> Action {
        guard state == .fetching, session.note(answer, now: now), let challenge = session.challenge else {
            state = .over
            return .fail
        }
        state = .sent(isRepeated: false)
        return .send(challenge, created: session.created(now: now))
    }

    /// Handles the answer to the request.
    public mutating func answered(
        _ answer: GatewayAnswer, _ session: inout ProofSession, now: Int64
    ) -> Action {
        let isRenewed = session.note(answer, now: now)
        guard state == .sent(isRepeated: false), isMendable(answer, isRenewed: isRenewed, &session, now: now),
            let challenge = session.usableChallenge(now: now)
        else {
            state = .over
            return .deliver
        }
        state = .sent(isRepeated: true)
        return .send(challenge, created: session.created(now: now))
    }

    private func isMendable(
        _ answer: GatewayAnswer, isRenewed: Bool, _ session: inout ProofSession, now: Int64
    ) -> Bool {
        guard answer.status == 401 else { return false }
        switch answer.denial {
        case "challenge_required": return isRenewed
        case "proof_stale":
            if let date = answer.date { session.correctClock(by: date, now: now) }
            return isRenewed || answer.date != nil
        case "counter_replayed", "counter_late": return isIdempotent
        default: return false
        }
    }
}

/// A proof before its assertion, for callers that sign themselves.
///
/// Sign `clientDataHash` and pass the assertion to `fields(assertion:)`. One draft serves any number of assertions,
/// whose counters make the proofs different. A draft with a counter, as Android needs it, serves one signature: ECDSA
/// with SHA-256 over `signatureBase`, r and s of 32 bytes each.
public struct ProofDraft: Sendable {
    /// The client data: the signature base (RFC 9421 section 2.5), byte for byte.
    public let signatureBase: [UInt8]
    /// Its SHA-256: 32 bytes for `generateAssertion(_:clientDataHash:)`.
    public let clientDataHash: [UInt8]
    private let signatureInput: [UInt8]
    private let contentDigest: [UInt8]?
    private let counter: [UInt8]?

    /// Creates a draft.
    ///
    /// - Parameters:
    ///   - counter: The counter of an Android device, at least 1. Nil for App Attest.
    ///   - created: The present time by the gateway's clock if known, in seconds since 1970.
    ///   - expires: The end of the proof's validity, in seconds since 1970.
    /// - Throws: `malformed` of `request` if a component's value cannot be signed, or of `signatureInput` if a time is
    ///   invalid.
    public init(
        _ request: AttestedRequest, answering challenge: ReceivedChallenge, keyID: KeyID, created: Int64,
        expires: Int64? = nil, counter: UInt32? = nil
    ) throws(ProofFault) {
        let request = counter.map { request.stating(counter: $0) } ?? request
        let builder = try ProofBuilder(
            components: request.components(asked: challenge.request.components), keyID: keyID,
            nonce: challenge.request.nonce, created: created, expires: expires,
            algorithm: counter == nil ? .appleAttest : .ecdsaP256SHA256)
        signatureBase = try request.signatureBase(builder)
        clientDataHash = ContentHash.sha256(signatureBase)
        signatureInput = builder.signatureInput
        contentDigest = request.contentDigest
        self.counter = request.proofCounter
    }

    /// Returns the fields of the proof.
    ///
    /// - Parameter assertion: The hardware key's assertion or signature.
    /// - Throws: `malformed` of `signature` if it is empty or too large.
    public func fields(assertion: [UInt8]) throws(ProofFault) -> ProofFields {
        ProofFields(
            contentDigest: contentDigest, counter: counter, signatureInput: signatureInput,
            signature: try ProofSignature(assertion: assertion).fieldValue)
    }
}

/// The fields of a proof. Send each unchanged in one line.
public struct ProofFields: Equatable, Sendable {
    /// The value of Content-Digest; nil if the request has no content.
    public var contentDigest: [UInt8]?
    /// The value of Attest-Proof-Counter; nil for App Attest.
    public var counter: [UInt8]?
    public var signatureInput: [UInt8]
    public var signature: [UInt8]

    public init(contentDigest: [UInt8]?, counter: [UInt8]? = nil, signatureInput: [UInt8], signature: [UInt8]) {
        self.contentDigest = contentDigest
        self.counter = counter
        self.signatureInput = signatureInput
        self.signature = signature
    }

    /// The names and values of the two to four lines.
    public var lines: [(name: String, value: String)] {
        let values = [
            ("Content-Digest", contentDigest), ("Attest-Proof-Counter", counter), ("Signature-Input", signatureInput),
            ("Signature", signature),
        ]
        return values.compactMap { name, value in value.map { (name, String(decoding: $0, as: UTF8.self)) } }
    }
}
