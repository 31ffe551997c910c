internal import Bytes
internal import Challenges
internal import Cryptography
internal import HTTP
internal import Registry
internal import RequestProof

/// The challenges of one worker: handed out in `Accept-Signature`, and recognised in proofs.
final class RequestChallenges {
    private let secrets: GatewaySecrets
    private let library: LibraryContext
    private let life: UInt64
    private var issuer: ChallengeIssuer
    private let isCurrent: (RandomID) -> Bool
    /// How long a challenge is good for.
    var lifeSeconds: Int64 { Int64(clamping: life) }
    /// Of the store, as challenges are bound to it now.
    private(set) var epoch: RandomID

    /// - Parameters:
    ///   - life: how long a challenge is good for, in seconds.
    ///   - isCurrent: whether this epoch is known to be the store's now.
    init(
        _ secrets: GatewaySecrets, _ identity: StoreIdentity, life: UInt64, _ library: LibraryContext,
        isCurrent: @escaping (RandomID) -> Bool
    ) throws(CryptographyError) {
        self.secrets = secrets
        self.library = library
        self.life = life
        self.isCurrent = isCurrent
        epoch = identity.epoch
        issuer = try Self.makeIssuer(secrets, identity, library)
    }

    private static func makeIssuer(
        _ secrets: GatewaySecrets, _ identity: StoreIdentity, _ library: LibraryContext
    ) throws(CryptographyError) -> ChallengeIssuer {
        guard
            let scope = ChallengeScope(
                purpose: .request, store: identity.store.bytes, epoch: identity.epoch.bytes)
        else { preconditionFailure("a store id has 16 bytes") }
        return try ChallengeIssuer(scope, current: secrets.current, previous: secrets.previous, library)
    }

    /// The store has a fresh epoch: every challenge handed out before is foreign from now on.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        issuer = try Self.makeIssuer(secrets, identity, library)
        epoch = identity.epoch
    }

    /// Whether no other gateway can have drawn an epoch that is unknown here: a foreign challenge is certainly not of this store
    /// then.
    var isEpochCurrent: Bool { isCurrent(epoch) }

    func verdict(on nonce: Span<UInt8>, now: UInt64) throws(CryptographyError) -> ChallengeVerdict {
        try issuer.verify(nonce, now: now, life: life)
    }

    /// Appends an `Accept-Signature` field with a new challenge, or nothing if none can be made: the response is right
    /// without it, and the client asks again.
    func appendField(asking components: [Component], now: UInt64, to output: inout ByteBuffer) {
        guard let challenge = try? issuer.issue(now: now),
            let request = try? AcceptSignature(components: components, nonce: challenge.bytes)
        else { return }
        let value = request.fieldValue
        output.appendField("Accept-Signature", value.span)
    }
}
