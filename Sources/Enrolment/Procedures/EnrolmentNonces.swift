internal import Challenges
internal import Cryptography
internal import Registry

/// The nonces of one generation: made without storing any, and recognised. That each is used once is the registry's to see to.
final class EnrolmentNonces {
    private let secrets: EnrolmentSettings.Secrets
    private let life: UInt64
    private let library: LibraryContext
    private var issuer: ChallengeIssuer
    /// Of the store, as nonces are bound to it now.
    private(set) var epoch: RandomID

    /// - Parameter life: in seconds.
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

    /// The store has a fresh epoch: every nonce handed out before is foreign from now on.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        issuer = try Self.makeIssuer(secrets, identity, library)
        epoch = identity.epoch
    }

    /// - Parameter now: in seconds since 1970.
    func issue(now: Int64) throws(EnrolmentFault) -> IssuedNonce {
        let challenge = try EnrolmentFault.checking { () throws(CryptographyError) in
            try issuer.issue(now: UInt64(max(0, now)))
        }
        guard let nonce = IssuedNonce(challenge.bytes) else { preconditionFailure("a challenge is base64url") }
        return nonce
    }

    /// What the registry spends, if the nonce is ours and fresh.
    func singleUse(of nonce: IssuedNonce, now: Int64) throws(EnrolmentFault) -> SingleUse {
        let text = nonce.text
        let verdict = try EnrolmentFault.checking { () throws(CryptographyError) in
            try issuer.verify(text.span, now: UInt64(max(0, now)), life: life)
        }
        guard case .fresh(let issuedAt, _) = verdict else { throw .nonceRefused }
        let digest = try EnrolmentFault.checking { () throws(CryptographyError) in try library.sha256(of: text.span) }
        return SingleUse(id: Fingerprint(digest), expiresAt: Int64(clamping: issuedAt + life))
    }
}

extension Fingerprint {
    init(_ digest: Digest256) {
        guard let fingerprint = Fingerprint(digest.bytes) else { preconditionFailure("a SHA-256 has 32 bytes") }
        self = fingerprint
    }
}
