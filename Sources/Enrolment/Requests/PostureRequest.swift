internal import Encoding
internal import Registry

/// The parsed content of `POST /attestation`. Nothing was verified.
struct PostureRequest: Equatable {
    let nonce: IssuedNonce
    /// The attestation of a key that was made for this request: certificates in DER, leaf first. Only from Android
    /// phones.
    let chain: [[UInt8]]?
    /// The token of Google Play as received. Only from Android phones.
    let playIntegrityToken: [UInt8]?
    /// What the app says of its phone.
    let signals: Signals?

    /// Parses the content.
    ///
    /// - Parameters:
    ///   - content: JSON with unique members: `nonce`, and optionally `key_attestation`, `play_integrity_token` and
    ///     `signals`.
    ///   - now: The time in seconds since 1970.
    init(_ content: [UInt8], now: Int64) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.nonce, .keyAttestation, .playIntegrityToken, .signals]) else { throw .memberUnknown }
        nonce = try body.nonce()
        chain = body[RequestMember.keyAttestation.rawValue] == nil ? nil : try body.certificates(.keyAttestation)
        playIntegrityToken = try body.playIntegrityToken()
        signals = try body.signals(now: now)
    }
}

extension JSONObject {
    /// Returns the signals of a request, if there are any.
    fileprivate func signals(now: Int64) throws(EnrolmentFault) -> Signals? {
        guard let value = self[RequestMember.signals.rawValue] else { return nil }
        guard let object = value.object, let signals = Signals(object, claimedAt: now) else {
            throw .valueFormat(.signals)
        }
        return signals
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
