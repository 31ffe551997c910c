public import Attestation
public import Cryptography
internal import Encoding
internal import Registry
public import Vocabulary

/// How the hardware key of the device vouches for the new key.
public enum HardwareProof: Equatable, Sendable {
    /// An iPhone's assertion, which has the counter within.
    case assertion(AssertionParts)
    /// An Android phone's ECDSA signature in DER, the counter, and the attestation of the new key, if it was sent: its
    /// certificates in DER, leaf first.
    case signature([UInt8], counter: UInt32, mtlsKeyAttestation: [[UInt8]]?)
}

/// The name by which the device that binds is found.
public enum HardwareKeyName: Equatable, Sendable {
    /// An iPhone's tag.
    case keyID(KeyID)
    /// An Android app's tag.
    case tag([UInt8])
}

/// The content of a verified key-binding token. Only `KeyBindingVerifier` creates one.
///
/// It still remains to check that the nonce is valid and unused, and that the device exists and is not revoked. Its
/// hardware key must vouch for the client data, the counter must be unspent, and the key must never have had another
/// device.
public struct KeyBinding: Equatable, Sendable {
    public let nonce: IssuedNonce
    /// The device that binds.
    public let hardwareKey: HardwareKeyName
    /// The text of `hardware_key_tag` as received.
    let tag: [UInt8]
    /// The key to bind, `keypair_mTLS`: the uncompressed point, 65 bytes and on the curve.
    public let point: [UInt8]
    /// The key id of that key.
    public let keyID: KeyID
    /// The JWK thumbprint of that key, with SHA-256 in base64url (RFC 7638).
    public let thumbprint: String
    public let proof: HardwareProof
    /// The token of Google Play as received. Only from Android phones.
    let playIntegrityToken: [UInt8]?
    /// The admission, if a token was required and sent.
    public let admission: Admission?

    /// The bytes that the hardware key signs, in this order and without white space. Both texts are base64url. Android's
    /// have the counter too.
    public var clientData: [UInt8] {
        var counter = ""
        if case .signature(_, let value, _) = proof { counter = #","counter":\#(value)"# }
        return Array(#"{"nonce":""#.utf8) + nonce.text + Array(#"","jwk_thumbprint":"\#(thumbprint)"\#(counter)}"#.utf8)
    }

    /// Verifies that an iPhone's hardware key vouches for this key and this nonce.
    ///
    /// - Parameters:
    ///   - key: The hardware key of the device.
    ///   - rpIDHash: SHA-256 of the id of the device's app, 32 bytes.
    public func verifyAssertion(
        key: P256VerificationKey, rpIDHash: Span<UInt8>, _ library: LibraryContext
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        guard case .assertion(let parts) = proof else { throw .memberMissing(.keyAttestation) }
        return try parts.verify(over: clientData, key: key, rpIDHash: rpIDHash, library)
    }

    /// Verifies that an Android phone's hardware key vouches for this key, this nonce and the counter.
    ///
    /// - Parameter key: The hardware key of the device.
    /// - Returns: the counter, and the attestation of the new key if it was sent.
    public func verifySignature(
        key: P256VerificationKey, _ library: LibraryContext
    ) throws(EnrolmentFault) -> (counter: UInt32, mtlsKeyAttestation: [[UInt8]]?) {
        guard case .signature(let signature, let counter, let chain) = proof else { throw .memberMissing(.counter) }
        guard key.verify(digest: try library.digest(of: clientData), signature: signature.span) else {
            throw .hardwareSignature
        }
        return (counter, chain)
    }
}

extension AssertionParts {
    /// Verifies that an iPhone's hardware key vouches for client data.
    ///
    /// - Parameters:
    ///   - key: The hardware key of the device.
    ///   - rpIDHash: SHA-256 of the id of the device's app, 32 bytes.
    func verify(
        over clientData: [UInt8], key: P256VerificationKey, rpIDHash: Span<UInt8>, _ library: LibraryContext
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        let hash = try library.digest(of: clientData)
        let assertion = assertion
        do throws(AssertionFault) {
            return try AssertionVerifier.verify(
                assertion.span, clientDataHash: hash.span, key: key, rpIDHash: rpIDHash, digests: library)
        } catch {
            throw .assertion(error)
        }
    }
}

/// The stateless verification of key-binding tokens. Belongs to the thread of its library context.
public struct KeyBindingVerifier {
    /// Tolerance for `iat`, ahead or behind, in seconds.
    public static let clockTolerance: Int64 = 60
    /// Limit of a token's lifetime in seconds from `iat`.
    public static let longestLife: Int64 = 300

    private let provider: ProviderURL
    private let admission: AdmissionTokenVerifier?
    private let library: LibraryContext

    /// Creates a verifier.
    ///
    /// - Parameter admission: Nil if devices need no token. A token that is sent is then refused.
    public init(provider: ProviderURL, admission: AdmissionTokenVerifier? = nil, _ library: LibraryContext) {
        self.provider = provider
        self.admission = admission
        self.library = library
    }

    /// Performs all checks: the form, then comparisons, then signatures.
    ///
    /// - Parameters:
    ///   - content: The content of `POST /key-binding`.
    ///   - issuerKeys: The keys of admission tokens that were fetched.
    ///   - now: The time in seconds since 1970.
    public func verify(
        _ content: [UInt8], _ issuerKeys: IssuerKeyRecord = IssuerKeyRecord(), now: Int64
    ) throws(EnrolmentFault) -> KeyBinding {
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
            nonce: token.nonce, hardwareKey: token.hardwareKey, tag: token.tag, point: token.key.point,
            keyID: try library.keyID(of: token.key.point), thumbprint: thumbprint, proof: token.proof,
            playIntegrityToken: token.playIntegrityToken,
            admission: try admission(token, thumbprint, issuerKeys, now))
    }

    /// Checks the admission token. Without a configured issuer a token is refused, because the app must not believe
    /// that it was verified. With one, a device that was admitted before needs none; the registry checks that.
    private func checkAdmissionMember(_ token: ReceivedKeyBindingToken) throws(EnrolmentFault) {
        if admission == nil, token.admissionToken != nil { throw .tokenMembers }
    }

    /// Checks the header. The sender must choose neither the algorithm (RFC 8725 section 3.1) nor the kind of token
    /// (section 3.11).
    private func checkHeader(_ token: ReceivedKeyBindingToken) throws(EnrolmentFault) {
        guard token.algorithm.spells("ES256") else { throw .tokenAlgorithm }
        guard token.type.spells("rp-kb+jwt") else { throw .tokenType }
    }

    private func checkTimes(_ token: ReceivedKeyBindingToken, _ now: Int64) throws(EnrolmentFault) {
        // The range ends with the year 9999, so that no sum overflows.
        guard let issuedAt = token.issuedAt.integer, NumericDate.range.contains(issuedAt),
            abs(now - issuedAt) <= Self.clockTolerance
        else { throw .tokenIssuedAt }
        // A token is already invalid at the time of expiry (RFC 7519 section 4.1.4).
        guard let expiry = token.expiry.integer, NumericDate.range.contains(expiry), now < expiry,
            expiry <= issuedAt + Self.longestLife
        else { throw .tokenExpiry }
    }

    /// Checks that the new key signed the token, which proves possession of its private key.
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
        _ token: ReceivedKeyBindingToken, _ thumbprint: String, _ issuerKeys: IssuerKeyRecord, _ now: Int64
    ) throws(EnrolmentFault) -> Admission? {
        guard let admission, let text = token.admissionToken else { return nil }
        do throws(AdmissionFault) {
            return try admission.verify(text, keyThumbprint: thumbprint, issuerKeys, now: now)
        } catch {
            throw .admission(error)
        }
    }
}

/// The parsed content of `POST /key-binding`. Nothing was verified.
private struct ReceivedKeyBindingToken {
    let jws: CompactJWS
    let algorithm: JSONValue
    let keyID: JSONValue
    let type: JSONValue
    let issuer: JSONValue
    let audience: JSONValue
    let issuedAt: JSONValue
    let expiry: JSONValue
    /// The signing key: `cnf.jwk`.
    let key: PublicJWK
    let nonce: IssuedNonce
    let hardwareKey: HardwareKeyName
    let tag: [UInt8]
    let proof: HardwareProof
    let playIntegrityToken: [UInt8]?
    /// The admission token, which was not parsed.
    let admissionToken: [UInt8]?

    /// Permitted lengths of the signature in bytes. `AssertionVerifier` checks the content.
    private static let signatureLengths = 1...128
    private static let authenticatorDataLengths = 1...Assertion.lengthLimit

    /// Parses the content.
    ///
    /// - Parameter content: JSON with one member `assertion`, a JWT.
    init(_ content: [UInt8]) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.assertion]) else { throw .memberUnknown }
        jws = try Self.token(try body.text(.assertion))
        let header = jws.header
        let claims = jws.payload
        // Only the form: the device that is found decides on the platform.
        let isAndroid = claims[RequestMember.counter.rawValue] != nil
        try Self.check(header, has: [.algorithm, .keyID, .type])
        try Self.check(
            claims,
            has: [
                .issuer, .audience, .issuedAt, .expiry, .nonce, .hardwareKeyTag, .hardwareSignature, .confirmation,
                isAndroid ? .counter : .keyAttestation,
            ], and: isAndroid ? [.admissionToken, .mtlsKeyAttestation, .playIntegrityToken] : [.admissionToken])
        algorithm = try header.required(.algorithm)
        keyID = try header.required(.keyID)
        type = try header.required(.type)
        issuer = try claims.required(.issuer)
        audience = try claims.required(.audience)
        issuedAt = try claims.required(.issuedAt)
        expiry = try claims.required(.expiry)
        nonce = try claims.nonce()
        tag = try claims.text(.hardwareKeyTag)
        playIntegrityToken = try claims.playIntegrityToken()
        let signature = try claims.bytes(.hardwareSignature, Self.signatureLengths)
        if isAndroid {
            hardwareKey = .tag(try claims.bytes(.hardwareKeyTag, AttestationRecord.tagLengths))
            proof = .signature(
                signature, counter: try Self.counter(claims), mtlsKeyAttestation: try Self.attestation(claims))
        } else {
            hardwareKey = .keyID(try claims.hardwareKeyID())
            proof = .assertion(
                AssertionParts(
                    signature: signature,
                    authenticatorData: try claims.bytes(.keyAttestation, Self.authenticatorDataLengths)))
        }
        let hasAdmission = claims[RequestMember.admissionToken.rawValue] != nil
        admissionToken = hasAdmission ? try claims.text(.admissionToken) : nil
        key = try Self.key(try claims.required(.confirmation))
    }

    private static func counter(_ claims: JSONObject) throws(EnrolmentFault) -> UInt32 {
        guard let number = try claims.required(.counter).integer, let counter = UInt32(exactly: number), counter > 0
        else { throw .valueFormat(.counter) }
        return counter
    }

    private static func attestation(_ claims: JSONObject) throws(EnrolmentFault) -> [[UInt8]]? {
        guard claims[RequestMember.mtlsKeyAttestation.rawValue] != nil else { return nil }
        return try claims.certificates(.mtlsKeyAttestation)
    }

    private static func token(_ text: [UInt8]) throws(EnrolmentFault) -> CompactJWS {
        do throws(JWSFault) {
            return try CompactJWS(text)
        } catch {
            // A repeated member is not an encoder's mistake, but a statement with two meanings.
            throw error == .json(.duplicateName) ? .tokenMembers : .tokenMalformed
        }
    }

    /// Checks the members. Missing ones are reported first, so that a client with a misspelt name learns which it is.
    private static func check(
        _ object: JSONObject, has members: [RequestMember], and optional: [RequestMember] = []
    ) throws(EnrolmentFault) {
        for member in members { _ = try object.required(member) }
        guard object.hasOnly(members + optional) else { throw .tokenMembers }
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
