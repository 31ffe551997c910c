internal import Bytes
internal import Challenges
internal import Cryptography
internal import HTTP
internal import Registry
internal import RequestProof

/// The challenges of one worker: issued in `Accept-Signature` and recognized in proofs.
final class RequestChallenges {
    private let secrets: GatewaySecrets
    private let library: LibraryContext
    private let life: UInt64
    private var issuer: ChallengeIssuer
    private let isCurrent: (RandomID) -> Bool
    /// How long a challenge is valid, in seconds.
    var lifeSeconds: Int64 { Int64(clamping: life) }
    /// The store's epoch to which challenges are bound.
    private(set) var epoch: RandomID

    /// Creates the issuer.
    ///
    /// - Parameters:
    ///   - life: How long a challenge is valid, in seconds.
    ///   - isCurrent: Returns whether an epoch is known to be the store's present one.
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

    /// Adopts a fresh epoch of the store: every earlier challenge becomes foreign.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        issuer = try Self.makeIssuer(secrets, identity, library)
        epoch = identity.epoch
    }

    /// Whether no other gateway can have drawn an epoch that is unknown here. A foreign challenge is then certainly
    /// not of this store.
    var isEpochCurrent: Bool { isCurrent(epoch) }

    func verdict(on nonce: Span<UInt8>, now: UInt64) throws(CryptographyError) -> ChallengeVerdict {
        try issuer.verify(nonce, now: now, life: life)
    }

    /// Returns the value of `Accept-Signature` with a new challenge. Nil if none can be made: the response is valid
    /// without it, and the client asks again.
    ///
    /// - Parameter algorithm: The only algorithm that is accepted; nil to request none.
    func fieldValue(asking components: [Component], by algorithm: ProofAlgorithm? = nil, now: UInt64) -> [UInt8]? {
        guard let challenge = try? issuer.issue(now: now),
            let request = try? AcceptSignature(
                components: components, nonce: challenge.bytes, algorithm: algorithm)
        else { return nil }
        return request.fieldValue
    }

    /// Returns the value for a request like this one.
    ///
    /// - Parameter platform: That of the device, if it is known. Android devices learn that a counter and another
    ///   algorithm are required.
    func fieldValue(
        for head: RequestHead, _ coverage: Coverage, by platform: Platform?, now: Int64
    ) -> [UInt8]? {
        var traits = ReceivedProofFields.traits(of: head)
        var algorithm: ProofAlgorithm?
        if platform?.proofAlgorithm == .ecdsaP256SHA256 {
            traits.insert(.proofCounter)
            algorithm = .ecdsaP256SHA256
        }
        return fieldValue(asking: coverage.components(for: traits), by: algorithm, now: UInt64(max(0, now)))
    }
}
