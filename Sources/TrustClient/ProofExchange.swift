public import RequestProof
public import Vocabulary

/// One request with its proof, from the first challenge to the response that counts: decides, and does nothing.
///
/// At most one more try. `challenge_required` and `proof_stale` mean that nothing was executed, and that a new proof
/// helps. `counter_replayed` and `counter_late` mean that the earlier sending may have been executed, so only an app
/// that knows the request to be idempotent has it sent again. A new proof does not help against any other denial.
public struct ProofExchange: Equatable, Sendable {
    public enum Action: Equatable, Sendable {
        /// GET `ProofSession.challengePath` of the same authority; then `challengeAnswered`.
        case fetchChallenge
        /// Make a new proof of this challenge with this `created`, and send the request with it; then `answered`.
        case send(ReceivedChallenge, created: Int64)
        /// The last response is the request's.
        case deliver
        /// The gateway gave no challenge that this key can answer; its last answer tells why.
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

    /// - Parameter isIdempotent: whether executing the request twice is the same as executing it once.
    public init(isIdempotent: Bool) {
        self.isIdempotent = isIdempotent
    }

    /// - Parameter now: by this device's clock, in seconds since 1970; so below.
    public mutating func begin(_ session: ProofSession, now: Int64) -> Action {
        guard let challenge = session.usableChallenge(now: now) else {
            state = .fetching
            return .fetchChallenge
        }
        state = .sent(isRepeated: false)
        return .send(challenge, created: session.created(now: now))
    }

    /// The challenge endpoint has answered.
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

    /// The request has been answered.
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

/// A proof before its assertion: the synchronous core, for those who sign by themselves.
///
/// Have `clientDataHash` signed, and give the assertion to `fields(assertion:)`. One draft serves any number of
/// assertions: each has a counter of its own, and that makes the proofs different.
public struct ProofDraft: Sendable {
    /// Client data: the signature base (RFC 9421 section 2.5), byte for byte.
    public let signatureBase: [UInt8]
    /// SHA-256 of it: 32 bytes, for `generateAssertion(_:clientDataHash:)`.
    public let clientDataHash: [UInt8]
    private let signatureInput: [UInt8]
    private let contentDigest: [UInt8]?

    /// - Parameters:
    ///   - created: now, in seconds since 1970, by the gateway's clock as far as it is known.
    ///   - expires: when the proof is to end, in seconds since 1970.
    /// - Throws: `malformed` of `request`, if a component's value cannot be signed; of `signatureInput`, if a time is none.
    public init(
        _ request: AttestedRequest, answering challenge: ReceivedChallenge, keyID: KeyID, created: Int64,
        expires: Int64? = nil
    ) throws(ProofFault) {
        let builder = try ProofBuilder(
            components: request.components(asked: challenge.request.components), keyID: keyID,
            nonce: challenge.request.nonce, created: created, expires: expires)
        signatureBase = try request.signatureBase(builder)
        clientDataHash = ContentHash.sha256(signatureBase)
        signatureInput = builder.signatureInput
        contentDigest = request.contentDigest
    }

    /// - Parameter assertion: what the hardware key returned for `clientDataHash`.
    /// - Throws: `malformed` of `signature`, if it is empty or too large.
    public func fields(assertion: [UInt8]) throws(ProofFault) -> ProofFields {
        ProofFields(
            contentDigest: contentDigest, signatureInput: signatureInput,
            signature: try ProofSignature(assertion: assertion).fieldValue)
    }
}

/// The fields by which a request carries its proof; to be sent as they are, each in one line.
public struct ProofFields: Equatable, Sendable {
    /// The value of Content-Digest; nil if the request has no content.
    public var contentDigest: [UInt8]?
    public var signatureInput: [UInt8]
    public var signature: [UInt8]

    public init(contentDigest: [UInt8]?, signatureInput: [UInt8], signature: [UInt8]) {
        self.contentDigest = contentDigest
        self.signatureInput = signatureInput
        self.signature = signature
    }

    /// Names and values of the two or three lines.
    public var lines: [(name: String, value: String)] {
        let values = [
            ("Content-Digest", contentDigest), ("Signature-Input", signatureInput), ("Signature", signature),
        ]
        return values.compactMap { name, value in value.map { (name, String(decoding: $0, as: UTF8.self)) } }
    }
}
