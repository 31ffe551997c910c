internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// The admission of devices by health cards.
struct CardAdmission {
    /// The issuer under which card holders have their pseudonyms.
    static let issuer = "urn:attestgate:card"

    let cards: HealthCards
    let unknownIsAbsent: Bool
    private let pseudonyms: SubjectPseudonyms

    init(
        _ settings: EnrolmentSettings.Cards, _ secrets: EnrolmentSettings.Secrets, _ library: LibraryContext
    ) throws {
        cards = try HealthCards(pem: settings.authorities, library)
        unknownIsAbsent = settings.unknownIsAbsent
        pseudonyms = SubjectPseudonyms(try AuthenticationKey(secrets.subjects.span, library))
    }

    /// Returns the stored form of an insured person's number.
    func pseudonym(of holder: [UInt8]) throws(EnrolmentFault) -> Fingerprint {
        let digest = try EnrolmentFault.checking { () throws(CryptographyError) in
            try pseudonyms.pseudonym(ofSubject: holder, issuer: Self.issuer)
        }
        return Fingerprint(digest)
    }

    /// The refusal of a registration that does not exist, or is another person's.
    var unknown: EnrolmentFault { .dsr(.registration(isAbsent: unknownIsAbsent)) }
}

/// Registration by a health card: from the content to a command for the registry.
extension EnrolmentRules {
    /// The age at which a registration token and an attestation token expire, in seconds, as in the reference system.
    private static let registrationLife: Int64 = 3_600
    static let attestationLife: Int64 = 1_800

    /// A verified registration, with the certificate to be issued.
    struct CardRegistration {
        let command: InstanceRegistration
        let planned: PlannedClientCertificate
        /// The key of the certificate: the uncompressed point, 65 bytes.
        let point: [UInt8]
    }

    /// Verifies everything that needs no state: token, nonce, card, certification request and attestation.
    ///
    /// - Parameters:
    ///   - status: The status list of Android's attestation keys.
    ///   - now: The time in seconds since 1970.
    ///   - subject: Receives the subject as soon as it is known.
    func registration(
        _ content: [UInt8], _ status: KeyStatusRecord, now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> CardRegistration {
        // Without cards the endpoint is not served.
        guard let cards else { throw .instanceUnknown }
        let token = try DSRContent(content).token
        let claims = try DSRClaims(token, life: Self.registrationLife, now: now)
        let nonce = try nonces.singleUse(of: claims.nonce.nonce, now: now)
        let point = try certifiedPoint(claims)
        let holder = try cards.pseudonym(of: cards.cards.holder(of: token, now: now))
        let (app, instance) = try attested(claims, status, now: now, &subject)
        let planned = try planCertificate(now: now)
        let binding = InstanceRegistration.FirstBinding(
            key: claims.subject, serial: planned.serial, notAfter: planned.notAfter, subject: holder)
        return CardRegistration(
            command: InstanceRegistration(
                identity: instance.identity, attestation: instance.record, shown: instance.shown, nonce: nonce,
                epoch: nonces.epoch, developmentLimit: app.settings.developmentLimit, binding: binding),
            planned: planned, point: point)
    }

    /// Verifies the certification request.
    ///
    /// - Returns: its key, which is that of `sub`.
    private func certifiedPoint(_ claims: DSRClaims) throws(EnrolmentFault) -> [UInt8] {
        let der = try claims.bytes("csr", .requestMalformed)
        guard let request = CertificationRequest(der: der) else { throw .dsr(.requestMalformed) }
        guard try library.keyID(of: request.point) == claims.subject else { throw .dsr(.requestKey) }
        let expected = Base64.encode(try library.digest(of: claims.nonce.bytes, Array("CSR_MTLS".utf8)).bytes)
        guard request.challengePasswords.count == 1, request.challengePasswords[0].elementsEqual(expected.utf8) else {
            throw .dsr(.challengePassword)
        }
        let isSigned = try EnrolmentFault.checking { () throws(CryptographyError) in try request.isSigned(library) }
        guard isSigned else { throw .dsr(.requestSignature) }
        return request.point
    }

    private func attested(
        _ claims: DSRClaims, _ status: KeyStatusRecord, now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> (EnrolledApp, AttestedInstance) {
        let attestation = try claims.isAndroid ? androidAttestation(claims) : appleAttestation(claims)
        if case .apple(_, let keyID) = attestation { subject.device = label(of: keyID) }
        let app = try apps.app(named: attestation, library)
        subject.app = app.settings.id.description
        subject.attestation = .refused
        let instance: AttestedInstance
        switch (app.verification, attestation) {
        case (.apple(let apple), .apple(let object, let keyID)):
            let integrity = try library.digest(of: claims.nonce.bytes, Array("INTEGRITY".utf8))
            let hash = try library.digest(of: integrity.bytes, claims.subject.bytes)
            instance = try apple.attest(
                AttestationEvidence(attestation: object, clientDataHash: hash.bytes, keyID: keyID),
                certificateKey: claims.subject, now: now)
        case (.android(let android), .android(let chain, _)):
            let hash = try library.digest(of: claims.nonce.bytes, Array("KEYPAIR_MTLS".utf8))
            instance = try android.attest(
                KeyAttestationEvidence(certificates: chain, clientDataHash: hash.bytes),
                integrityToken: try claims.optionalText("integrityVerdict"),
                nonce: try library.digest(of: claims.nonce.bytes, Array("INTEGRITY".utf8)),
                android.status(in: status, now: now), now: now)
            guard instance.identity.hardwareKey == claims.subject else { throw .dsr(.attestedKey) }
            try checkPackage(claims, app)
        // The app was found by the attestation.
        case (.apple, .android), (.android, .apple): throw .appRefused
        }
        subject.attestation = .verified
        subject.device = label(of: instance.identity.hardwareKey)
        return (app, instance)
    }

    private func appleAttestation(_ claims: DSRClaims) throws(EnrolmentFault) -> HardwareKeyAttestation {
        let name = try claims.bytes("keyId", .keyID)
        guard let keyID = KeyID(digest: name.span) else { throw .dsr(.keyID) }
        let object = try claims.bytes("attestation")
        guard (1...AttestationObject.lengthLimit).contains(object.count) else { throw .attestation(.tooLong) }
        return .apple(object, keyID)
    }

    /// Returns the chain of the certificate's key. gematik's app sends its leaf apart, and the chain of the key that has
    /// attested it.
    private func androidAttestation(_ claims: DSRClaims) throws(EnrolmentFault) -> HardwareKeyAttestation {
        var chain = try claims.chain()
        if try claims.optionalText("subjectCert") != nil {
            let leaf = try claims.bytes("subjectCert")
            if leaf != chain[0] { chain.insert(leaf, at: 0) }
        }
        return .android(chain, tag: [])
    }

    /// Checks that the app is the one that the token names.
    func checkPackage(_ claims: DSRClaims, _ app: EnrolledApp) throws(EnrolmentFault) {
        guard let package = app.settings.id.package, try claims.text("packageName").elementsEqual(package.utf8) else {
            throw .dsr(.packageName)
        }
    }
}

/// A new posture of an enrolled device, for which it gets a device token.
extension EnrolmentRules {
    /// A verified attestation token.
    struct ShownPosture {
        let command: Reattestation
        /// The counter of an iPhone's assertion.
        let counter: (value: UInt32, shown: ShownExtensions)?
    }

    /// Verifies an attestation token with everything that needs no state.
    ///
    /// - Parameter identity: The certificate of the connection.
    func attestationClaims(
        _ token: CompactJWS, of identity: (key: KeyID, thumbprint: [UInt8]), now: Int64
    ) throws(EnrolmentFault) -> (DSRClaims, nonce: SingleUse) {
        let claims = try DSRClaims(token, life: Self.attestationLife, now: now)
        let nonce = try nonces.singleUse(of: claims.nonce.nonce, now: now)
        guard token.header["crit"] == nil, token.header["alg"]?.spells("ES256") == true else { throw .dsr(.algorithm) }
        let der = try token.onlyCertificate()
        guard try library.digest(of: der).bytes == identity.thumbprint else { throw .dsr(.certificate) }
        guard claims.subject == identity.key else { throw .dsr(.subject) }
        let isSigned = try EnrolmentFault.checking { () throws(CryptographyError) in
            // TLS has accepted this certificate, which therefore has a key on P-256.
            guard let point = try Certificate(der: der.span, library).publicKey?.uncompressedPoint else { return false }
            return try token.isSigned(by: P256VerificationKey(point: point.span, library), library)
        }
        guard isSigned else { throw .dsr(.signature) }
        return (claims, nonce)
    }

    /// Verifies what a device shows in its attestation token, and returns the command for the registry.
    func posture(
        _ claims: DSRClaims, _ nonce: SingleUse, of details: DeviceDetails, _ status: KeyStatusRecord, now: Int64
    ) throws(EnrolmentFault) -> ShownPosture {
        let device = details.device
        let app = try app(of: device.identity)
        let challenge = try library.digest(of: claims.nonce.bytes, Array("1".utf8))
        switch app.verification {
        case .apple(let apple):
            guard !claims.isAndroid else { throw .dsr(.deviceType) }
            let hash = try library.digest(of: challenge.bytes, claims.subject.bytes)
            let shown = try apple.verify(try claims.bytes("assertion"), clientDataHash: hash, of: details)
            return ShownPosture(
                command: Reattestation(
                    device: device.id, nonce: nonce, epoch: nonces.epoch, phone: nil, evidence: .assertion,
                    app: shown.app, signals: claims.signals(now: now)),
                counter: (shown.counter, shown.shown))
        case .android(let android):
            guard claims.isAndroid else { throw .dsr(.deviceType) }
            try checkPackage(claims, app)
            let (phone, evidence) = try android.reattest(
                KeyAttestationEvidence(certificates: try claims.chain(), clientDataHash: challenge.bytes),
                integrityToken: try claims.optionalText("integrityVerdict"),
                nonce: try library.digest(of: claims.nonce.bytes, Array("2".utf8)), of: details,
                android.status(in: status, now: now), now: now)
            return ShownPosture(
                command: Reattestation(
                    device: device.id, nonce: nonce, epoch: nonces.epoch, phone: phone, evidence: evidence,
                    app: ShownApp(), signals: claims.signals(now: now)),
                counter: nil)
        }
    }
}
