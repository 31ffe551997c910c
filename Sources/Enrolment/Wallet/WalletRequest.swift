internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// The parsed content of `POST /wallet-instance-attestations`, after the specifications of IT-Wallet: a JWT signed by
/// the key to be attested, in which the device's hardware key vouches for it.
///
/// Another party defines the JWT, so unknown claims are ignored (RFC 7519 section 4). Only form, times and signature
/// were verified.
struct WalletRequest {
    let nonce: IssuedNonce
    let hardwareKey: HardwareKeyName
    /// The key to be attested.
    let key: PublicJWK
    /// The signature by the hardware key.
    let signature: [UInt8]
    /// `integrity_assertion`: the authenticator data of an assertion in base64url, or a token of Google Play. Nil if an
    /// Android app sent none.
    let integrity: [UInt8]?
    /// What the hardware key vouches for.
    let clientData: [UInt8]

    private static let signatureLengths = 1...128

    /// Parses the content, and verifies the signature of the key to be attested.
    ///
    /// - Parameters:
    ///   - content: JSON with one member `assertion`, a JWT with typ `wia-request+jwt`.
    ///   - now: The time in seconds since 1970.
    init(_ content: [UInt8], now: Int64, _ library: LibraryContext) throws(EnrolmentFault) {
        let body = try JSONObject(content: content)
        guard body.hasOnly([.assertion]) else { throw .memberUnknown }
        guard let signed = try? CompactJWS(try body.text(.assertion)) else { throw .tokenMalformed }
        let claims = signed.payload
        guard try signed.header.required(.algorithm).spells("ES256"), signed.header["crit"] == nil else {
            throw .tokenAlgorithm
        }
        guard try signed.header.required(.type).spells("wia-request+jwt") else { throw .tokenType }
        guard let members = try claims.required(.confirmation).object?["jwk"]?.object,
            let key = PublicJWK(received: members)
        else { throw .tokenKey }
        let thumbprint = try EnrolmentFault.checking { () throws(CryptographyError) in try key.thumbprint(library) }
        guard try signed.header.required(.keyID).spells(thumbprint) else { throw .tokenKeyID }
        self.key = key
        nonce = try claims.nonce()
        signature = try claims.bytes(.hardwareSignature, Self.signatureLengths)
        integrity =
            claims[RequestMember.integrityAssertion.rawValue] == nil ? nil : try claims.text(.integrityAssertion)
        let platform = String(decoding: try claims.text(.platform), as: UTF8.self).lowercased()
        switch platform {
        case "ios": hardwareKey = .keyID(try claims.hardwareKeyID())
        case "android": hardwareKey = .tag(try claims.bytes(.hardwareKeyTag, AttestationRecord.tagLengths))
        default: throw .valueFormat(.platform)
        }
        clientData = Array(#"{"challenge":""#.utf8) + nonce.text + Array(#"","jwk_thumbprint":"\#(thumbprint)"}"#.utf8)
        try Self.checkTimes(claims, now)
        try Self.check(signed, by: key, library)
    }

    /// Checks the times. The nonce limits the age further.
    private static func checkTimes(_ claims: JSONObject, _ now: Int64) throws(EnrolmentFault) {
        guard let issuedAt = try claims.required(.issuedAt).integer, NumericDate.range.contains(issuedAt),
            issuedAt <= now + KeyBindingVerifier.clockTolerance
        else { throw .tokenIssuedAt }
        guard let expiry = try claims.required(.expiry).integer, NumericDate.range.contains(expiry), now < expiry
        else { throw .tokenExpiry }
    }

    private static func check(
        _ signed: CompactJWS, by jwk: PublicJWK, _ library: LibraryContext
    ) throws(EnrolmentFault) {
        let key: P256VerificationKey
        do throws(CryptographyError) { key = try P256VerificationKey(point: jwk.point.span, library) } catch {
            throw .tokenKey  // not on the curve
        }
        let isSigned = try EnrolmentFault.checking { () throws(CryptographyError) in
            try signed.isSigned(by: key, library)
        }
        guard isSigned else { throw .tokenSignature }
    }

    /// Returns the parts of an iPhone's assertion.
    func assertion() throws(EnrolmentFault) -> AssertionParts {
        guard let integrity else { throw .memberMissing(.integrityAssertion) }
        guard let data = Base64URL.decode(integrity.span), (1...Assertion.lengthLimit).contains(data.count) else {
            throw .valueFormat(.integrityAssertion)
        }
        return AssertionParts(signature: signature, authenticatorData: data)
    }
}

/// A client attestation: from the content to a command for the registry, and after it the attestation.
extension EnrolmentRules {
    /// A request that was verified as far as possible without state, with its fresh nonce.
    struct ShownWallet {
        let request: WalletRequest
        let nonce: SingleUse
        /// The epoch of the nonce.
        let epoch: RandomID
    }

    /// - Parameter now: The time in seconds since 1970.
    func wallet(
        _ content: [UInt8], now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> ShownWallet {
        let request = try WalletRequest(content, now: now, library)
        if case .keyID(let keyID) = request.hardwareKey { subject.device = label(of: keyID) }
        return ShownWallet(
            request: request, nonce: try nonces.singleUse(of: request.nonce, now: now), epoch: nonces.epoch)
    }

    /// Verifies that the device may have an attestation, and that its hardware key vouches for the key.
    ///
    /// - Parameters:
    ///   - details: The device that is registered under the hardware key.
    ///   - status: The status list of Android's attestation keys.
    ///   - now: The time in seconds since 1970.
    func command(
        _ shown: ShownWallet, of details: DeviceDetails, _ status: KeyStatusRecord, now: Int64,
        _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> Reattestation {
        let device = details.device
        subject.device = label(of: device.identity.hardwareKey)
        subject.app = device.identity.app.description
        try checkAdmission(of: device)
        var phone: AttestedPhone?
        var evidence: Reattestation.Evidence?
        var app = ShownApp()
        switch try self.app(of: device.identity).verification {
        case .apple(let apple):
            app = try apple.verify(shown.request.assertion(), over: shown.request.clientData, of: details).app
            evidence = .assertion
        case .android(let android):
            phone = try android.verify(shown.request, of: details, android.status(in: status, now: now), now: now)
        }
        return Reattestation(
            device: device.id, nonce: shown.nonce, epoch: shown.epoch, phone: phone, evidence: evidence, app: app)
    }

    /// A wallet need not bind a key for mutual TLS, with which a device becomes active.
    private func checkAdmission(of device: Device) throws(EnrolmentFault) {
        switch (device.state, admission) {
        case (.revoked, _): throw .instanceRevoked
        case (.active, _), (.pending, .open): break
        case (.pending, .card): throw .approvalPending
        case (.pending, .approval): guard device.approvedAt != nil else { throw .approvalPending }
        case (.pending, .token): throw .memberMissing(.admissionToken)
        }
    }
}
