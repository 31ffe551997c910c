public import Attestation
public import Cryptography
public import Vocabulary

/// What a verified key-binding token says. Only `KeyBindingVerifier` makes one.
///
/// Still to be done: the nonce is ours, fresh and unused; the device exists and is not revoked; `verifyProof`; the counter
/// is unspent; no other device ever had the key.
public struct KeyBinding: Equatable, Sendable {
    public let nonce: IssuedNonce
    /// The device that binds, by its hardware key.
    public let hardwareKeyID: KeyID
    /// The uncompressed point of `keypair_mTLS`, the key that is bound: 65 bytes, on the curve.
    public let point: [UInt8]
    /// Its key id.
    public let keyID: KeyID
    /// Its JWK thumbprint with SHA-256 in base64url (RFC 7638).
    public let thumbprint: String
    /// The hardware key's assertion.
    public let proof: AssertionParts
    /// Who let the device in, where a token decides that and one was sent.
    public let admission: Admission?

    /// What the hardware key signs: these bytes, this order, no white space. Both values are base64url.
    public var clientData: [UInt8] {
        Array(#"{"nonce":""#.utf8) + nonce.text + Array(#"","jwk_thumbprint":""#.utf8) + Array(thumbprint.utf8)
            + Array(#""}"#.utf8)
    }

    /// Verifies that the hardware key speaks for this key and this nonce.
    ///
    /// - Parameters:
    ///   - key: the hardware key that is registered under `hardwareKeyID`.
    ///   - rpIDHash: the SHA-256 of the id of the device's app, 32 bytes.
    public func verifyProof(
        key: P256VerificationKey, rpIDHash: Span<UInt8>, _ library: LibraryContext
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        let clientData = clientData
        let hash = try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: clientData.span)
        }
        let assertion = proof.assertion
        do throws(AssertionFault) {
            return try AssertionVerifier.verify(
                assertion.span, clientDataHash: hash.span, key: key, rpIDHash: rpIDHash, digests: library)
        } catch {
            throw .assertion(error)
        }
    }
}

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

/// The content of `POST /key-binding`, taken apart: the right form, nothing believed.
struct ReceivedKeyBindingToken {
    let jws: CompactJWS
    let algorithm: JSONValue
    let keyID: JSONValue
    let type: JSONValue
    let issuer: JSONValue
    let audience: JSONValue
    let issuedAt: JSONValue
    let expiry: JSONValue
    /// The key that signs: `cnf.jwk`.
    let key: PublicJWK
    let nonce: IssuedNonce
    let hardwareKeyID: KeyID
    let proof: AssertionParts
    /// A token of its own, not looked into.
    let admissionToken: [UInt8]?

    /// Longest signature and authenticator data, in bytes. What they are is for `AssertionVerifier`.
    private static let signatureLengths = 1...128
    private static let authenticatorDataLengths = 1...Assertion.lengthLimit

    /// - Parameter content: JSON, one member `assertion`, a JWT.
    init(_ content: [UInt8]) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.assertion]) else { throw .memberUnknown }
        jws = try Self.token(try body.text(.assertion))
        let header = jws.header
        let claims = jws.payload
        try Self.check(header, has: [.algorithm, .keyID, .type])
        try Self.check(
            claims,
            has: [
                .issuer, .audience, .issuedAt, .expiry, .nonce, .hardwareKeyTag, .hardwareSignature, .keyAttestation,
                .confirmation,
            ], and: .admissionToken)
        algorithm = try header.required(.algorithm)
        keyID = try header.required(.keyID)
        type = try header.required(.type)
        issuer = try claims.required(.issuer)
        audience = try claims.required(.audience)
        issuedAt = try claims.required(.issuedAt)
        expiry = try claims.required(.expiry)
        nonce = try claims.nonce()
        hardwareKeyID = try claims.hardwareKeyID()
        proof = AssertionParts(
            signature: try claims.bytes(.hardwareSignature, Self.signatureLengths),
            authenticatorData: try claims.bytes(.keyAttestation, Self.authenticatorDataLengths))
        let hasAdmission = claims[RequestMember.admissionToken.rawValue] != nil
        admissionToken = hasAdmission ? try claims.text(.admissionToken) : nil
        key = try Self.key(try claims.required(.confirmation))
    }

    private static func token(_ text: [UInt8]) throws(EnrolmentFault) -> CompactJWS {
        do throws(JWSFault) {
            return try CompactJWS(text)
        } catch {
            // A member twice is no slip of an encoder but a statement with two meanings.
            throw error == .json(.duplicateName) ? .tokenMembers : .tokenMalformed
        }
    }

    /// Reports missing members first: a client that misspells a name learns which one.
    private static func check(
        _ object: JSONObject, has members: [RequestMember], and optional: RequestMember? = nil
    ) throws(EnrolmentFault) {
        for member in members { _ = try object.required(member) }
        guard object.hasOnly(members + (optional.map { [$0] } ?? [])) else { throw .tokenMembers }
    }

    private static func key(_ confirmation: JSONValue) throws(EnrolmentFault) -> PublicJWK {
        guard let members = confirmation.object else { throw .tokenKey }
        try check(members, has: [.jwk])
        guard let jwk = try members.required(.jwk).object else { throw .tokenKey }
        guard jwk.hasOnly(PublicJWK.members) else { throw .tokenMembers }
        guard let key = PublicJWK(jwk) else { throw .tokenKey }
        return key
    }
}
