internal import Attestation
internal import Cryptography
internal import Registry
internal import Vocabulary

/// Key binding: from content to what the registry is asked to do, in two steps, since the hardware key is the registry's to
/// tell.
extension EnrolmentRules {
    /// A token that is right in all that needs no state, and its nonce, which is ours and fresh.
    struct ShownBinding {
        let binding: KeyBinding
        let nonce: SingleUse
        /// Of the nonce.
        let epoch: RandomID
    }

    func binding(
        _ content: [UInt8], now: Int64, _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> ShownBinding {
        let binding = try bindings.verify(content, now: now)
        subject.device = label(of: binding.hardwareKeyID)
        return ShownBinding(
            binding: binding, nonce: try nonces.singleUse(of: binding.nonce, now: now), epoch: nonces.epoch)
    }

    /// Verifies that the device's hardware key speaks for the new key, and chooses the certificate's number and end, which
    /// the registry writes down with the binding.
    ///
    /// - Parameter device: the one that is registered under the hardware key.
    func command(
        _ shown: ShownBinding, _ planned: PlannedClientCertificate, of details: DeviceDetails,
        _ subject: inout EnrolmentSubject
    ) throws(EnrolmentFault) -> BindingRequest {
        let device = details.device
        subject.app = device.identity.app.description
        guard device.state != .revoked else { throw .instanceRevoked }
        let (app, rpIDHash) = try app(of: device.identity)
        let assertion = try verifyProof(of: shown.binding, device, app.settings, rpIDHash)
        // Only the device learns of this refusal. The newest receipt counts: that of the attestation seldom has a
        // metric.
        if let ceiling = app.settings.maximumRisk, let risk = details.attestation?.riskMetric, risk > ceiling {
            throw .riskTooHigh
        }
        // The minimum may have been raised since the attestation.
        if let minimum = app.settings.attested.extensions.minimumSystem,
            minimum.refusal(of: details.attestation?.systemVersion) != nil
        {
            throw .systemOutdated
        }
        return BindingRequest(
            hardwareKey: shown.binding.hardwareKeyID, key: shown.binding.keyID, nonce: shown.nonce, epoch: shown.epoch,
            counter: assertion.counter, shown: assertion.extensions.shown, mode: app.settings.counters,
            admission: try admission(of: shown.binding), overlap: overlap, serial: planned.serial,
            notAfter: planned.notAfter)
    }

    /// - Parameter now: in seconds since 1970.
    func planCertificate(now: Int64) throws(EnrolmentFault) -> PlannedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in try certificates.plan(now: now) }
    }

    private func verifyProof(
        of binding: KeyBinding, _ device: Device, _ app: EnrolmentSettings.App, _ rpIDHash: Digest256
    ) throws(EnrolmentFault) -> VerifiedAssertion {
        let point = device.identity.point.bytes
        let key = try EnrolmentFault.checking { () throws(CryptographyError) in
            try P256VerificationKey(point: point.span, library)
        }
        let verified = try binding.verifyProof(key: key, rpIDHash: rpIDHash.span, library)
        // An app that has grown too old since it was attested, or a system that says less than it did.
        let assertion = binding.proof.assertion
        do throws(ExtensionFault) {
            try app.attested.extensions.judge(verified.extensions, of: assertion.span, after: device.shown)
        } catch {
            throw .extensions(error)
        }
        return verified
    }

    private func admission(of binding: KeyBinding) throws(EnrolmentFault) -> Registry.AdmissionGrant {
        switch admission {
        case .open: return .open
        case .approval: return .approval
        case .token(let issuer):
            guard let shown = binding.admission else { return .earlier }
            // One issuer's ids say nothing about another's. The length goes first, so that no byte can be moved.
            let id = Array("\(issuer.issuer.utf8.count):\(issuer.issuer)".utf8) + shown.tokenID
            let digest = try EnrolmentFault.checking { () throws(CryptographyError) in try library.sha256(of: id.span) }
            return .token(
                SingleUse(id: Fingerprint(digest), expiresAt: shown.expiry), subject: Fingerprint(shown.subject))
        }
    }

    /// The certificate for a key whose binding is durable.
    func issue(
        _ planned: PlannedClientCertificate, for binding: KeyBinding
    ) throws(EnrolmentFault) -> IssuedClientCertificate {
        try EnrolmentFault.checking { () throws(CryptographyError) in
            try certificates.issue(planned, forKey: binding.point, device: binding.hardwareKeyID)
        }
    }
}
