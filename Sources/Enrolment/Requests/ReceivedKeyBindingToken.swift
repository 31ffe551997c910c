internal import Attestation
internal import Vocabulary

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
