public import Cryptography
internal import Vocabulary

/// Verifies key-binding tokens, as far as that needs no state. Belongs to the thread of its library context.
public struct KeyBindingVerifier {
    /// How far `iat` may lie ahead or behind, in seconds.
    public static let clockTolerance: Int64 = 60
    /// How long a token may live, in seconds from `iat`.
    public static let longestLife: Int64 = 300

    private let provider: ProviderURL
    private let admission: AdmissionTokenVerifier?
    private let library: LibraryContext

    /// - Parameter admission: nil if devices are let in without a token; one that is sent is then refused.
    public init(provider: ProviderURL, admission: AdmissionTokenVerifier? = nil, _ library: LibraryContext) {
        self.provider = provider
        self.admission = admission
        self.library = library
    }

    /// Makes all checks: those of the form, what costs a comparison, then the signatures.
    ///
    /// - Parameters:
    ///   - content: of `POST /key-binding`.
    ///   - now: in seconds since 1970.
    public func verify(_ content: [UInt8], now: Int64) throws(EnrolmentFault) -> KeyBinding {
        let token = try ReceivedKeyBindingToken(content)
        try checkAdmissionMember(token)
        try checkHeader(token)
        let thumbprint = try EnrolmentFault.checking { () throws(CryptographyError) in
            try token.key.thumbprint(library)
        }
        guard token.keyID.spells(thumbprint) else { throw .tokenKeyID }
        guard token.audience.spells(provider.text) else { throw .tokenAudience }
        guard token.issuer.spells(provider.instance(thumbprint)) else { throw .tokenIssuer }
        try checkTimes(token, now)
        try checkSignature(token)
        return KeyBinding(
            nonce: token.nonce, hardwareKeyID: token.hardwareKeyID, point: token.key.point,
            keyID: try keyID(token.key.point), thumbprint: thumbprint, proof: token.proof,
            admission: try admission(token, thumbprint, now))
    }

    /// Where no token is asked for, the app must not believe that one was looked at. Where one is, a device that was let
    /// in before needs no other: whether this one was, is for who keeps state.
    private func checkAdmissionMember(_ token: ReceivedKeyBindingToken) throws(EnrolmentFault) {
        if admission == nil, token.admissionToken != nil { throw .tokenMembers }
    }

    /// The algorithm is never the sender's to choose (RFC 8725 section 3.1), nor is the kind of token (section 3.11).
    private func checkHeader(_ token: ReceivedKeyBindingToken) throws(EnrolmentFault) {
        guard token.algorithm.spells("ES256") else { throw .tokenAlgorithm }
        guard token.type.spells("rp-kb+jwt") else { throw .tokenType }
    }

    private func checkTimes(_ token: ReceivedKeyBindingToken, _ now: Int64) throws(EnrolmentFault) {
        // Bounded, so that no sum overflows: the year 9999 is as far as any date here goes.
        guard let issuedAt = token.issuedAt.integer, NumericDate.range.contains(issuedAt),
            abs(now - issuedAt) <= Self.clockTolerance
        else { throw .tokenIssuedAt }
        // At the time of expiry it must not be accepted any more (RFC 7519 section 4.1.4).
        guard let expiry = token.expiry.integer, NumericDate.range.contains(expiry), now < expiry,
            expiry <= issuedAt + Self.longestLife
        else { throw .tokenExpiry }
    }

    /// The new key itself signed: the sender has its private half.
    private func checkSignature(_ token: ReceivedKeyBindingToken) throws(EnrolmentFault) {
        let key: P256VerificationKey
        do throws(CryptographyError) {
            key = try P256VerificationKey(point: token.key.point.span, library)
        } catch {
            throw .tokenKey  // not on the curve
        }
        let isSigned = try EnrolmentFault.checking { () throws(CryptographyError) in
            try token.jws.isSigned(by: key, library)
        }
        guard isSigned else { throw .tokenSignature }
    }

    private func admission(
        _ token: ReceivedKeyBindingToken, _ thumbprint: String, _ now: Int64
    ) throws(EnrolmentFault) -> Admission? {
        guard let admission, let text = token.admissionToken else { return nil }
        do throws(AdmissionFault) {
            return try admission.verify(text, keyThumbprint: thumbprint, now: now)
        } catch {
            throw .admission(error)
        }
    }

    private func keyID(_ point: [UInt8]) throws(EnrolmentFault) -> KeyID {
        let digest = try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: point.span)
        }
        guard let keyID = KeyID(digest: digest.span) else { preconditionFailure("a SHA-256 has 32 bytes") }
        return keyID
    }
}

/// Times in tokens: seconds since 1970 (RFC 7519 section 2). Fractions are refused.
enum NumericDate {
    /// Up to the year 9999.
    static let range: ClosedRange<Int64> = 0...253_402_300_799
}
