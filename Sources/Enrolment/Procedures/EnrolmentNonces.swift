internal import Challenges
internal import Cryptography
internal import Encoding
internal import Registry

/// The nonces of one generation, and the codes for device tokens, created and verified without storing them. The
/// registry ensures that each is used once.
final class EnrolmentNonces {
    /// Length of a nonce's bytes.
    static let length = 58

    private let secrets: EnrolmentSettings.Secrets
    private let life: UInt64
    private let library: LibraryContext
    private var issuer: ChallengeIssuer
    private var identity: StoreIdentity
    /// The store's epoch, to which nonces are bound.
    var epoch: RandomID { identity.epoch }

    /// Derives the keys.
    ///
    /// - Parameter life: In seconds.
    init(
        _ secrets: EnrolmentSettings.Secrets, _ identity: StoreIdentity, life: UInt64, _ library: LibraryContext
    ) throws(CryptographyError) {
        self.secrets = secrets
        self.life = life
        self.library = library
        self.identity = identity
        issuer = try Self.makeIssuer(secrets, identity, library)
    }

    /// - Parameter binding: What else the challenges are bound to, at most 200 bytes.
    private static func makeIssuer(
        _ secrets: EnrolmentSettings.Secrets, _ identity: StoreIdentity, purpose: ChallengePurpose = .enrolment,
        binding: [UInt8] = [], _ library: LibraryContext
    ) throws(CryptographyError) -> ChallengeIssuer {
        let scope = ChallengeScope(
            purpose: purpose, store: identity.store.bytes + binding, epoch: identity.epoch.bytes)
        guard let scope else { preconditionFailure("a store id has 16 bytes") }
        return try ChallengeIssuer(scope, current: secrets.current, previous: secrets.previous, library)
    }

    /// Adopts a new epoch of the store, which makes all earlier nonces invalid.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        issuer = try Self.makeIssuer(secrets, identity, library)
        self.identity = identity
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
        try singleUse(of: nonce.text, of: issuer, now: now)
    }

    private func singleUse(
        of text: [UInt8], of issuer: ChallengeIssuer, now: Int64
    ) throws(EnrolmentFault) -> SingleUse {
        let verdict = try EnrolmentFault.checking { () throws(CryptographyError) in
            try issuer.verify(text.span, now: UInt64(max(0, now)), life: life)
        }
        switch verdict {
        case .fresh(let issuedAt, _):
            let digest = try library.digest(of: text)
            return SingleUse(id: Fingerprint(digest), expiresAt: Int64(clamping: issuedAt + life))
        case .expired: throw .nonceExpired
        case .premature, .foreign, .malformed: throw .nonceRefused
        }
    }

    // MARK: - Codes for device tokens

    /// Issues a code that is valid for one certificate and one verifier. It lives as long as a nonce.
    ///
    /// - Parameters:
    ///   - thumbprint: SHA-256 of the client certificate, 32 bytes.
    ///   - challenge: The PKCE code challenge, 32 bytes.
    /// - Returns: lower-case hexadecimal: gematik's app for iOS decodes and encodes codes as base64, which such a text
    ///   survives.
    func issueCode(for thumbprint: [UInt8], challenge: [UInt8], now: Int64) throws(EnrolmentFault) -> String {
        let code = try EnrolmentFault.checking { () throws(CryptographyError) in
            try codeIssuer(thumbprint, challenge).issue(now: UInt64(max(0, now)))
        }
        guard let bytes = Base64URL.decode(code.span) else { preconditionFailure("a challenge is base64url") }
        return Hexadecimal.encode(bytes)
    }

    /// Verifies a code.
    ///
    /// - Parameter verifier: The PKCE code verifier.
    /// - Returns: the single-use value that the registry spends.
    func singleUse(
        ofCode code: [UInt8], for thumbprint: [UInt8], verifier: [UInt8], now: Int64
    ) throws(EnrolmentFault) -> SingleUse {
        guard let bytes = Hexadecimal.decode(String(decoding: code, as: UTF8.self)) else { throw .nonceRefused }
        let challenge = try library.digest(of: verifier)
        let issuer = try EnrolmentFault.checking { () throws(CryptographyError) in
            try codeIssuer(thumbprint, challenge.bytes)
        }
        return try singleUse(of: Array(Base64URL.encode(bytes).utf8), of: issuer, now: now)
    }

    private func codeIssuer(
        _ thumbprint: [UInt8], _ challenge: [UInt8]
    ) throws(CryptographyError) -> ChallengeIssuer {
        try Self.makeIssuer(secrets, identity, purpose: .deviceToken, binding: thumbprint + challenge, library)
    }
}

extension Fingerprint {
    init(_ digest: Digest256) {
        guard let fingerprint = Fingerprint(digest.bytes) else { preconditionFailure("a SHA-256 has 32 bytes") }
        self = fingerprint
    }
}
