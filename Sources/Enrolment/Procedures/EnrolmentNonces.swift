internal import Challenges
internal import Cryptography
internal import Registry

/// The nonces of one generation, created and verified without storing them. The registry ensures that each is used
/// once.
final class EnrolmentNonces {
    private let secrets: EnrolmentSettings.Secrets
    private let life: UInt64
    private let library: LibraryContext
    private var issuer: ChallengeIssuer
    /// The store's epoch, to which nonces are bound.
    private(set) var epoch: RandomID

    /// Derives the keys.
    ///
    /// - Parameter life: In seconds.
    init(
        _ secrets: EnrolmentSettings.Secrets, _ identity: StoreIdentity, life: UInt64, _ library: LibraryContext
    ) throws(CryptographyError) {
        self.secrets = secrets
        self.life = life
        self.library = library
        epoch = identity.epoch
        issuer = try Self.makeIssuer(secrets, identity, library)
    }

    private static func makeIssuer(
        _ secrets: EnrolmentSettings.Secrets, _ identity: StoreIdentity, _ library: LibraryContext
    ) throws(CryptographyError) -> ChallengeIssuer {
        let scope = ChallengeScope(
            purpose: .enrolment, store: identity.store.bytes, epoch: identity.epoch.bytes)
        guard let scope else { preconditionFailure("a store id has 16 bytes") }
        return try ChallengeIssuer(scope, current: secrets.current, previous: secrets.previous, library)
    }

    /// Adopts a new epoch of the store, which makes all earlier nonces invalid.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        issuer = try Self.makeIssuer(secrets, identity, library)
        epoch = identity.epoch
    }

    /// Issues a nonce.
    ///
    /// - Parameter now: The time in seconds since 1970.
    func issue(now: Int64) throws(EnrolmentFault) -> IssuedNonce {
        let challenge = try EnrolmentFault.checking { () throws(CryptographyError) in
            try issuer.issue(now: UInt64(max(0, now)))
        }
        guard let nonce = IssuedNonce(challenge.bytes) else { preconditionFailure("a challenge is base64url") }
        return nonce
    }

    /// Verifies a nonce.
    ///
    /// - Returns: the single-use value that the registry spends.
    func singleUse(of nonce: IssuedNonce, now: Int64) throws(EnrolmentFault) -> SingleUse {
        let text = nonce.text
        let verdict = try EnrolmentFault.checking { () throws(CryptographyError) in
            try issuer.verify(text.span, now: UInt64(max(0, now)), life: life)
        }
        guard case .fresh(let issuedAt, _) = verdict else { throw .nonceRefused }
        let digest = try library.digest(of: text)
        return SingleUse(id: Fingerprint(digest), expiresAt: Int64(clamping: issuedAt + life))
    }
}

extension Fingerprint {
    init(_ digest: Digest256) {
        guard let fingerprint = Fingerprint(digest.bytes) else { preconditionFailure("a SHA-256 has 32 bytes") }
        self = fingerprint
    }
}
