public import Cryptography
internal import Encoding

/// Issues and verifies challenges without storing them.
///
/// A challenge serves many requests during its life. The counter ensures that each proof is accepted once. The
/// challenge limits the validity of a proof to a period and to one store.
///
/// Belongs to the thread of its library context. Verifying allocates nothing.
public struct ChallengeIssuer {
    /// Tolerance for times of issue in the future, in seconds. The clocks of gateways that share a secret may differ.
    public static let clockTolerance: UInt64 = 60

    private struct Generation {
        let number: UInt8
        let key: AuthenticationKey

        init(_ secret: ChallengeSecret, _ scope: ChallengeScope, _ library: LibraryContext) throws(CryptographyError) {
            let info = scope.info
            let key = try KeyDerivation.hkdfSHA256(
                secret: secret.bytes.span, info: info.span, count: 32, library)
            number = secret.generation
            self.key = try AuthenticationKey(key.span, library)
        }
    }

    private let current: Generation
    private let previous: Generation?
    private let library: LibraryContext

    /// Derives the keys.
    ///
    /// - Parameters:
    ///   - current: The secret that signs and verifies.
    ///   - previous: A secret of another generation that only verifies.
    public init(
        _ scope: ChallengeScope, current: ChallengeSecret, previous: ChallengeSecret? = nil, _ library: LibraryContext
    ) throws(CryptographyError) {
        guard previous?.generation != current.generation else {
            throw CryptographyError(doing: "distinguish two challenge secrets of generation \(current.generation)")
        }
        self.current = try Generation(current, scope, library)
        if let previous {
            self.previous = try Generation(previous, scope, library)
        } else {
            self.previous = nil
        }
        self.library = library
    }

    /// Issues a new challenge.
    ///
    /// - Parameter now: The time in seconds since 1970.
    public func issue(now: UInt64) throws(CryptographyError) -> Challenge {
        var content = Challenge.Content(repeating: 0)
        content[0] = Challenge.version
        content[1] = current.number
        for offset in 0..<8 {
            content[Challenge.timeOffset + offset] = UInt8(truncatingIfNeeded: now >> UInt64(56 - 8 * offset))
        }
        let random = try library.randomBytes(Challenge.randomLength)
        for offset in 0..<Challenge.randomLength { content[Challenge.randomOffset + offset] = random[offset] }
        let code = try current.key.code(of: content.span.extracting(first: Challenge.codeOffset))
        for offset in 0..<32 { content[Challenge.codeOffset + offset] = code.span[offset] }
        return Challenge(content)
    }

    /// Verifies a text that was received as a challenge.
    ///
    /// - Parameters:
    ///   - text: Any bytes of any length.
    ///   - now: The time in seconds since 1970.
    ///   - life: The age in seconds at which a challenge expires.
    /// - Throws: if the check failed to run. The caller must then refuse the text.
    public func verify(
        _ text: Span<UInt8>, now: UInt64, life: UInt64
    ) throws(CryptographyError) -> ChallengeVerdict {
        var content = Challenge.Content(repeating: 0)
        var room = content.mutableSpan
        guard Base64URL.decode(text, into: &room), content[0] == Challenge.version else { return .malformed }
        guard let key = key(of: content[1]) else { return .foreign }
        let expected = try key.code(of: content.span.extracting(first: Challenge.codeOffset))
        guard ConstantTime.areEqual(expected.span, content.span.extracting(droppingFirst: Challenge.codeOffset)) else {
            return .foreign
        }
        // The content is authentic from here on.
        var issuedAt: UInt64 = 0
        for offset in 0..<8 { issuedAt = issuedAt << 8 | UInt64(content[Challenge.timeOffset + offset]) }
        guard issuedAt <= now || issuedAt - now <= Self.clockTolerance else { return .premature(issuedAt: issuedAt) }
        let age = now - min(issuedAt, now)
        guard age < life else { return .expired(issuedAt: issuedAt) }
        return .fresh(issuedAt: issuedAt, pastHalfLife: age > life / 2)
    }

    private func key(of generation: UInt8) -> AuthenticationKey? {
        if generation == current.number { return current.key }
        if let previous, generation == previous.number { return previous.key }
        return nil
    }
}
