internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// The verification of Android phones for one app, with Key Attestation.
struct AndroidVerification {
    let id: AppID
    let app: AndroidApp
    /// Whether the certificate's key must be attested too.
    let attestsCertificateKey: Bool
    let verifier: KeyAttestationVerifier
    /// Nil if Google Play is not asked.
    let integrity: IntegrityCheck?
    let library: LibraryContext

    func status(in record: KeyStatusRecord, now: Int64) -> KeyStatus { record.status(for: app.environment, at: now) }

    // MARK: - Initialization

    /// - Parameters:
    ///   - tag: The app's name for the device.
    ///   - isCertificateKey: Whether the hardware key is also the certificate's.
    func attest(
        _ evidence: KeyAttestationEvidence, _ request: InstanceInitialization, tag: [UInt8], isCertificateKey: Bool,
        _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> AttestedInstance {
        // Chains cost more, but are what phones get wrong most, so their refusals say more.
        let verified = try verify(evidence, status, now: now)
        let verdict = try verdict(
            of: request.playIntegrityToken, isDemanded: true, request.nonce, request.tag, now: now)
        return try instance(verified, evidence, verdict, tag: tag, isCertificateKey: isCertificateKey)
    }

    private func instance(
        _ verified: VerifiedKeyAttestation, _ evidence: KeyAttestationEvidence, _ verdict: IntegrityVerdict?,
        tag: [UInt8]?, isCertificateKey: Bool
    ) throws(EnrolmentFault) -> AttestedInstance {
        let digest = try library.digest(of: Array(evidence.certificates.joined()))
        let record = AttestationRecord(
            digest: Fingerprint(digest), certificateKey: isCertificateKey ? verified.keyID : nil,
            systemVersion: SystemVersion(verified), tag: tag,
            phone: try phone(verified).with(verdict),
            // Without a tag no key binding follows.
            isCertificateKeyAttested: tag == nil && isCertificateKey ? true : nil)
        guard let record, let point = PublicPoint(verified.publicKey) else {
            preconditionFailure("a verified key is an uncompressed point, and the tag was checked")
        }
        let identity = DeviceIdentity(
            app: id, platform: .android, environment: AttestationEnvironment(app.environment),
            hardwareKey: verified.keyID, point: point)
        return AttestedInstance(identity: identity, record: record, shown: [])
    }

    private func verify(
        _ evidence: KeyAttestationEvidence, _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> VerifiedKeyAttestation {
        do throws(KeyAttestationFault) {
            return try verifier.verify(evidence, at: now, status.list)
        } catch {
            throw .keyAttestation(error)
        }
    }

    private func phone(_ verified: VerifiedKeyAttestation) throws(EnrolmentFault) -> AttestedPhone {
        let hardware = verified.description.hardwareEnforced
        func level(_ tag: AuthorizationList.Tag) -> UInt32? { hardware.number(tag).flatMap { UInt32(exactly: $0) } }
        guard let root = hardware.rootOfTrust,
            let version = verified.description.softwareEnforced.application?.packages.first?.version,
            let phone = AttestedPhone(
                securityLevel: verified.description.attestationSecurityLevel == .strongBox
                    ? .strongBox : .trustedEnvironment,
                bootState: AttestedPhone.BootState(root.bootState), isLocked: root.isLocked,
                bootKey: root.verifiedBootKey, patchLevel: level(.osPatchLevel),
                vendorPatchLevel: level(.vendorPatchLevel), bootPatchLevel: level(.bootPatchLevel),
                appVersion: Int64(clamping: version), serials: verified.serials.map(\.hexadecimal))
            // Verification has checked all of it but the length of the boot key.
        else { throw .keyAttestation(.authorization(.rootOfTrust)) }
        return phone
    }

    // MARK: - Key binding

    /// Verifies that the device's hardware key vouches for the new key, and where it lives.
    func verify(
        _ binding: KeyBinding, of details: DeviceDetails, _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> VerifiedBinding {
        guard status.list != nil else { throw .keyAttestation(.statusListMissing) }
        let (counter, chain) = try binding.verifySignature(key: try library.key(of: details.device), library)
        try judge(details.attestation?.phone, by: status)
        let known = details.attestation?.phone
        let isHardwareKey = binding.keyID == details.device.identity.hardwareKey
        var keyAttestation = isHardwareKey ? CertificateKeyAttestation.earlier : .missing
        var phone: AttestedPhone?
        if let chain {
            let verified = try attested(by: chain, binding.nonce, binding.tag, status, now: now)
            guard verified.publicKey == binding.point else { throw .certificateKeyMismatch }
            keyAttestation = .new(SystemVersion(verified))
            phone = try self.phone(verified).with(known?.integrity)
            // Such a chain says where the certificate's key lives. The hardware key stays where it was made.
            if let level = known?.securityLevel {
                try judge(level)
                phone = phone?.with(level)
            }
        } else {
            // In the form `dsr` the attested hardware key is also the certificate's.
            guard !attestsCertificateKey || isHardwareKey else {
                throw .memberMissing(.mtlsKeyAttestation)
            }
            try judge(known)
        }
        let isDemanded = integrity.map { $0.isForEachBinding || !$0.isSatisfied(by: details.attestation) } ?? false
        let verdict = try verdict(
            of: binding.playIntegrityToken, isDemanded: isDemanded, binding.nonce, binding.tag, now: now)
        if let verdict { phone = (phone ?? known)?.with(verdict) }
        return VerifiedBinding(counter: counter, shown: [], phone: phone, keyAttestation: keyAttestation)
    }

    /// Verifies the attestation of a further key, whose challenge is of the form `nonce-and-tag`.
    private func attested(
        by chain: [[UInt8]], _ nonce: IssuedNonce, _ tag: [UInt8], _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> VerifiedKeyAttestation {
        let hash = try library.digest(of: nonce.text, tag)
        return try verify(
            KeyAttestationEvidence(certificates: chain, clientDataHash: hash.bytes), status, now: now)
    }

    /// Refuses a phone one of whose certificates was revoked after it was presented.
    private func judge(_ phone: AttestedPhone?, by status: KeyStatus) throws(EnrolmentFault) {
        guard let list = status.list else { throw .keyAttestation(.statusListMissing) }
        let serials = (phone?.serials ?? []).compactMap(AttestationSerial.init(hexadecimal:))
        if serials.contains(where: list.isRevoked) { throw .attestationRevoked }
    }

    // MARK: - A client attestation

    /// Verifies that the device's hardware key vouches for the key of a wallet, and the token of Google Play.
    ///
    /// - Returns: What is to be stored. Nil without a token.
    func verify(
        _ request: WalletRequest, of details: DeviceDetails, _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> AttestedPhone? {
        let key = try library.key(of: details.device)
        let digest = try library.digest(of: request.clientData)
        guard key.verify(digest: digest, signature: request.signature.span) else { throw .hardwareSignature }
        let known = details.attestation?.phone
        try judge(known, by: status)
        try judge(known)
        let isDemanded = integrity.map { $0.isForEachBinding || !$0.isSatisfied(by: details.attestation) } ?? false
        let verdict = try verdict(
            of: request.integrity, isDemanded ? .integrityAssertion : nil, boundTo: digest, now: now)
        return verdict.flatMap { known?.with($0) }
    }

    // MARK: - A new posture

    /// Verifies the attestation of a key that was made for the request, and the token of Google Play, if they were
    /// sent.
    ///
    /// - Returns: What is to be stored. The hardware key's own protection stays that of its attestation.
    func reattest(
        _ request: PostureRequest, of details: DeviceDetails, _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> (phone: AttestedPhone?, evidence: Reattestation.Evidence?) {
        let known = details.attestation?.phone
        try judge(known, by: status)
        // A device that an operator has added has no tag, and nothing that could be renewed.
        guard let name = details.attestation?.tag, let known else {
            guard request.chain == nil, request.playIntegrityToken == nil else { throw .memberUnknown }
            return (nil, nil)
        }
        let tag = Array(Base64URL.encode(name).utf8)
        var phone: AttestedPhone?
        var evidence: Reattestation.Evidence?
        if let chain = request.chain {
            let verified = try attested(by: chain, request.nonce, tag, status, now: now)
            phone = try self.phone(verified).with(known.integrity).with(known.securityLevel)
            evidence = .attestation(SystemVersion(verified))
        }
        let verdict = try verdict(
            of: request.playIntegrityToken, isDemanded: false, request.nonce, tag, now: now)
        if let verdict { phone = (phone ?? known).with(verdict) }
        return (phone, evidence)
    }

    /// Verifies the token of Google Play.
    ///
    /// - Returns: nil if none was sent, and none is demanded.
    private func verdict(
        of token: [UInt8]?, isDemanded: Bool, _ nonce: IssuedNonce, _ tag: [UInt8], now: Int64
    ) throws(EnrolmentFault) -> IntegrityVerdict? {
        let bound = try library.digest(of: nonce.text, tag)
        return try verdict(of: token, isDemanded ? .playIntegrityToken : nil, boundTo: bound, now: now)
    }

    /// - Parameters:
    ///   - member: The member that is missing without a token. Nil if none is demanded.
    ///   - bound: The nonce of the token.
    private func verdict(
        of token: [UInt8]?, _ member: RequestMember?, boundTo bound: Digest256, now: Int64
    ) throws(EnrolmentFault) -> IntegrityVerdict? {
        // The app must not believe that its token was verified.
        guard let integrity else { if token == nil { return nil } else { throw .memberUnknown } }
        guard let token else { if let member { throw .memberMissing(member) } else { return nil } }
        return try integrity.verdict(of: token, nonce: bound, now: now)
    }

    // MARK: - The reference system

    /// Verifies the attestation of the certificate's key, which is the hardware key too.
    ///
    /// - Parameter nonce: The hash in the token of Google Play. Where no key can decrypt tokens they are ignored, because
    ///   the app sends one always.
    func attest(
        _ evidence: KeyAttestationEvidence, integrityToken: [UInt8]?, nonce: Digest256, _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> AttestedInstance {
        let verified = try verify(evidence, status, now: now)
        let verdict = try verdict(of: integrityToken, nonce: nonce, now: now)
        return try instance(verified, evidence, verdict, tag: nil, isCertificateKey: true)
    }

    /// Verifies the attestation of a key that was made for the request.
    func reattest(
        _ evidence: KeyAttestationEvidence, integrityToken: [UInt8]?, nonce: Digest256, of details: DeviceDetails,
        _ status: KeyStatus, now: Int64
    ) throws(EnrolmentFault) -> (phone: AttestedPhone?, evidence: Reattestation.Evidence) {
        let known = details.attestation?.phone
        try judge(known, by: status)
        let verified = try verify(evidence, status, now: now)
        let verdict = try verdict(of: integrityToken, nonce: nonce, now: now)
        var phone = try phone(verified).with(verdict ?? known?.integrity)
        if let level = known?.securityLevel { phone = phone.with(level) }
        return (phone, .attestation(SystemVersion(verified)))
    }

    private func verdict(
        of token: [UInt8]?, nonce: Digest256, now: Int64
    ) throws(EnrolmentFault) -> IntegrityVerdict? {
        guard let integrity else { return nil }
        guard let token else { throw .dsr(.tokenSyntax) }
        return try integrity.verdict(of: token, nonce: nonce, now: now)
    }

    /// Judges what was attested earlier, because the demands may have been raised since.
    private func judge(_ phone: AttestedPhone?) throws(EnrolmentFault) {
        // A device that an operator has added was not attested.
        guard let phone else { return }
        try judge(phone.securityLevel)
        if app.boot == .verified {
            guard phone.isLocked else { throw .keyAttestation(.bootloaderUnlocked) }
            guard phone.bootState == .verified else { throw .keyAttestation(.bootState(phone.bootState.attested)) }
        }
        if let minimum = app.minimumVersion, phone.appVersion < Int64(clamping: minimum) {
            throw .keyAttestation(.versionTooLow(UInt64(phone.appVersion)))
        }
        if let fault = app.patchLevelFault(
            system: phone.patchLevel.map(UInt64.init), vendor: phone.vendorPatchLevel.map(UInt64.init),
            boot: phone.bootPatchLevel.map(UInt64.init))
        {
            throw .keyAttestation(fault)
        }
    }

    private func judge(_ level: AttestedPhone.SecurityLevel) throws(EnrolmentFault) {
        if app.securityLevel == .strongBox, level != .strongBox {
            throw .keyAttestation(.securityLevelTooLow(.trustedEnvironment))
        }
    }
}

/// The verification of one app's Play Integrity tokens.
struct IntegrityCheck {
    let isForEachBinding: Bool
    /// The verdict that a phone must have. Nil for any.
    private let device: String?
    private let verifier: IntegrityVerifier

    init(
        _ settings: EnrolmentSettings.App.Integrity, _ app: AndroidApp, of id: AppID, _ library: LibraryContext
    ) throws(EnrolmentStartError) {
        let keys: IntegrityKeys
        do throws(IntegrityKeyFault) {
            keys = try IntegrityKeys(
                decryption: settings.decryptionKey, verification: settings.verificationKey, library)
        } catch {
            throw EnrolmentStartError("app \(id): play_integrity: \(error.reason)")
        }
        let demands = IntegrityDemands(
            package: app.package, signingCertificates: app.signingCertificates, minimumVersion: app.minimumVersion,
            device: settings.device)
        isForEachBinding = settings.isForEachBinding
        device = settings.device
        verifier = IntegrityVerifier(demands, keys, library)
    }

    /// Returns whether what Google Play said of a phone meets the demands of today, which may have been raised since. A
    /// device that an operator has added was not asked for a token.
    func isSatisfied(by attestation: AttestationRecord?) -> Bool {
        guard let attestation else { return true }
        guard let verdict = attestation.phone?.integrity else { return false }
        return device.map(verdict.devices.contains) ?? true
    }

    func verdict(of token: [UInt8], nonce: Digest256, now: Int64) throws(EnrolmentFault) -> IntegrityVerdict {
        do throws(IntegrityFault) { return try verify(token, nonce: nonce.bytes, now: now) } catch {
            throw .integrity(error)
        }
    }

    private func verify(_ token: [UInt8], nonce: [UInt8], now: Int64) throws(IntegrityFault) -> IntegrityVerdict {
        let payload = try verifier.verify(token, nonce: nonce, at: now)
        let time = payload.milliseconds / 1000
        guard let verdict = IntegrityVerdict(devices: payload.devices, requestedAt: time) else {
            throw .payload("deviceRecognitionVerdict")
        }
        return verdict
    }
}

extension KeyStatus {
    /// The list that is compared. Empty if none is demanded, nil if it is demanded and there is none.
    fileprivate var list: AttestationStatusList? {
        switch self {
        case .notDemanded: AttestationStatusList(serials: [])
        case .current(let list): list
        case .missing, .stale: nil
        }
    }
}

extension AttestationEnvironment {
    init(_ environment: AndroidApp.Environment) {
        switch environment {
        case .production: self = .production
        case .simulator: self = .simulator
        }
    }
}

extension AttestedPhone.BootState {
    fileprivate init(_ state: RootOfTrust.BootState) {
        switch state {
        case .verified: self = .verified
        case .selfSigned: self = .selfSigned
        case .unverified: self = .unverified
        case .failed: self = .failed
        }
    }

    fileprivate var attested: RootOfTrust.BootState {
        switch self {
        case .verified: .verified
        case .selfSigned: .selfSigned
        case .unverified: .unverified
        case .failed: .failed
        }
    }
}

extension SystemVersion {
    /// Converts KeyMint's number, such as 140000 for version 14.
    ///
    /// - Returns: nil for an attestation without a version.
    fileprivate init?(_ verified: VerifiedKeyAttestation) {
        guard let number = verified.description.hardwareEnforced.number(.osVersion), number > 0, number < 10_000_000
        else { return nil }
        self.init("\(number / 10_000).\(number / 100 % 100).\(number % 100)")
    }
}
