internal import Encoding

/// The parsed content of `POST /attestation`. Nothing was verified.
struct PostureRequest: Equatable {
    let nonce: IssuedNonce
    /// The attestation of a key that was made for this request: certificates in DER, leaf first. Only from Android
    /// phones.
    let chain: [[UInt8]]?
    /// The token of Google Play as received. Only from Android phones.
    let playIntegrityToken: [UInt8]?

    /// Parses the content.
    ///
    /// - Parameter content: JSON with unique members: `nonce`, and optionally `key_attestation` and
    ///   `play_integrity_token`.
    init(_ content: [UInt8]) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.nonce, .keyAttestation, .playIntegrityToken]) else { throw .memberUnknown }
        nonce = try body.nonce()
        chain = body[RequestMember.keyAttestation.rawValue] == nil ? nil : try body.certificates(.keyAttestation)
        playIntegrityToken = try body.playIntegrityToken()
    }
}

/// The parsed content of `PATCH /instances/{id}`: `{"status":"REVOKED"}` and nothing else.
enum InstanceChange {
    static func check(_ content: [UInt8]) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.status]) else { throw .memberUnknown }
        guard try body.required(.status).spells("REVOKED") else { throw .valueFormat(.status) }
    }
}
