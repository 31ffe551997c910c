internal import Vocabulary

/// The rules of initialization and key binding. Times are in seconds since 1970-01-01T00:00:00Z.
enum KeyRules {
    typealias Rule = StoreRule<RegistryReply>

    /// Registers a device for an attestation, and spends its nonce. The device is pending, unless a first binding comes
    /// with it.
    static func initialize(_ request: InstanceRegistration, at time: Int64) -> Rule {
        let key = request.identity.hardwareKey
        var look = StoreLook(.hardwareKey(key))
        look.hardwareKey = key
        look.nonce = request.nonce
        look.tag = request.attestation.tag
        if request.developmentLimit != nil { look.developmentDevices = request.identity.app }
        if let binding = request.binding {
            look.bindingKey = binding.key
            look.serial = binding.serial
            look.subjects = [binding.subject]
        }
        // Devices without a binding are not announced, so this does not wait for transactions that announce a change,
        // unless devices are counted: two at the same time would both find the last place.
        return Rule(look: look, isExclusive: request.developmentLimit != nil || request.binding != nil) { facts in
            func refused(_ refusal: InitializationRefusal) -> StoreDecision<RegistryReply> {
                StoreDecision(reply: .initialization(.refused(refusal)))
            }
            guard facts.state.identity.epoch == request.epoch else { return refused(.epochChanged) }
            let nonce = facts.condition(of: request.nonce, .nonce, at: time)
            guard nonce != .expired else { return refused(.nonceExpired) }
            // A repeated request has used its nonce, but one with a first binding is no repetition.
            guard nonce != .used || request.binding == nil else { return refused(.nonceUsed) }
            if let known = facts.device {
                return StoreDecision(reply: .initialization(repetition(of: known, by: request)))
            }
            guard !facts.isHardwareKeyBarred else { return refused(.deviceRevoked) }
            guard nonce != .used else { return refused(.nonceUsed) }
            guard !facts.isTagTaken else { return refused(.tagTaken) }
            if let limit = request.developmentLimit, facts.developmentDevices >= limit {
                return refused(.tooManyForDevelopment)
            }
            var writes: [StoreWrite] = [.insert(device(for: request, at: time)), .use(request.nonce, .nonce)]
            if let binding = request.binding {
                guard !facts.isBindingKeyTaken else { return refused(.keyBound) }
                guard !facts.isSerialIssued else { return refused(.serialUsed) }
                guard !facts.barredSubjects.contains(binding.subject) else { return refused(.subjectRevoked) }
                writes.append(.issue(binding.serial, for: binding.key, until: binding.notAfter))
            }
            return StoreDecision(writes, reading: [.hardwareKey(key)]) { .initialization(.registered($0[0])) }
        }
    }

    /// Binds an mTLS key to the device of a hardware key. Spends the nonce, the assertion's counter value and the
    /// presented token.
    static func bindKey(_ request: BindingRequest, at time: Int64) -> Rule {
        var look = StoreLook(.hardwareKey(request.hardwareKey))
        look.counter = true
        look.bindingKey = request.key
        look.nonce = request.nonce
        look.serial = request.serial
        if case .afterExpiry = request.renewal { look.certificateEnd = true }
        if case .token(let token, let subject) = request.admission {
            look.token = token
            look.subjects = [subject]
        }
        return Rule(look: look) { facts in
            func refused(_ refusal: KeyBindingRefusal) -> StoreDecision<RegistryReply> {
                StoreDecision(reply: .keyBinding(.refused(refusal)))
            }
            guard facts.state.identity.epoch == request.epoch else { return refused(.epochChanged) }
            guard let details = facts.device, var window = facts.window else { return refused(.deviceUnknown) }
            if let refusal = refusal(of: request, facts, details, at: time) { return refused(refusal) }
            switch window.accept(request.counter, mode: request.mode) {
            case .replayed: return refused(.counterReplayed)
            case .late: return refused(.counterLate)
            case .accepted: break
            }
            let (writes, kind) = writes(for: request, details, window, at: time)
            return StoreDecision(writes, reading: [.id(details.device.id)]) { .keyBinding(.bound($0[0], kind)) }
        }
    }

    /// Keeps what an enrolled device has shown since, and spends the nonce.
    static func reattest(_ request: Reattestation, at time: Int64) -> Rule {
        var look = StoreLook(.id(request.device))
        look.nonce = request.nonce
        return Rule(look: look) { facts in
            func refused(_ refusal: KeyBindingRefusal) -> StoreDecision<RegistryReply> {
                StoreDecision(reply: .reattestation(.refused(refusal)))
            }
            guard facts.state.identity.epoch == request.epoch else { return refused(.epochChanged) }
            guard let details = facts.device else { return refused(.deviceUnknown) }
            switch facts.condition(of: request.nonce, .nonce, at: time) {
            case .expired: return refused(.nonceExpired)
            case .used: return refused(.nonceUsed)
            case .unused: break
            }
            guard details.device.state != .revoked else { return refused(.deviceRevoked) }
            let id = details.device.id
            var writes: [StoreWrite] = [.use(request.nonce, .nonce)]
            if let phone = request.phone { writes.append(.keepPhone(phone, of: id)) }
            if let evidence = request.evidence { writes.append(.keepEvidence(evidence, of: id, at: time)) }
            if !request.app.isEmpty { writes.append(.keepApp(request.app, of: id)) }
            if let signals = request.signals { writes.append(.keepSignals(signals, of: id)) }
            return StoreDecision(writes, reading: [.id(id)]) { .reattestation(.renewed($0[0])) }
        }
    }

    // MARK: - Initialization

    /// Returns the device to be inserted.
    private static func device(for request: InstanceRegistration, at time: Int64) -> ExportedDevice {
        let attestation = request.attestation
        return ExportedDevice(
            identity: request.identity, registeredAt: time, activatedAt: request.binding.map { _ in time },
            subject: request.binding?.subject, shown: request.shown, window: CounterWindow(),
            bindings: request.binding.map {
                [ExportedBinding(key: $0.key, createdAt: time, endsAt: nil, endedAt: nil)]
            } ?? [],
            attestation: ExportedAttestation(
                digest: attestation.digest, certificateKey: attestation.certificateKey,
                systemVersion: attestation.systemVersion, app: attestation.app, tag: attestation.tag,
                phone: attestation.phone, isCertificateKeyAttested: attestation.isCertificateKeyAttested),
            receipt: attestation.receipt.map {
                // The receipt is due at once. The refresher finds the right time for a request.
                ExportedReceipt(
                    content: $0, riskMetric: attestation.riskMetric,
                    refresh: ReceiptRefresh(createdAt: nil, nextAt: time, askedAt: nil, outcome: nil, failures: 0))
            })
    }

    /// Returns the result for a hardware key that is registered already.
    ///
    /// A phone cannot attest its key twice, so a client that lost the response repeats the same attestation.
    private static func repetition(
        of known: DeviceDetails, by request: InstanceRegistration
    ) -> InitializationVerdict {
        guard known.device.state != .revoked else { return .refused(.deviceRevoked) }
        guard request.binding == nil, known.bindings.isEmpty, known.device.identity == request.identity,
            known.attestation?.digest == request.attestation.digest,
            // Not every form of client data covers the tag.
            known.attestation?.tag == request.attestation.tag
        else { return .refused(.keyRegistered) }
        return .repeated(known)
    }

    // MARK: - Key binding

    /// Returns the reason to refuse the binding, apart from its counter.
    private static func refusal(
        of request: BindingRequest, _ facts: StoreFacts, _ details: DeviceDetails, at time: Int64
    ) -> KeyBindingRefusal? {
        switch facts.condition(of: request.nonce, .nonce, at: time) {
        case .expired: return .nonceExpired
        case .used: return .nonceUsed
        case .unused: break
        }
        guard details.device.state != .revoked else { return .deviceRevoked }
        guard isPermitted(request, facts, details, at: time) else { return .renewalElsewhere }
        if facts.isBindingKeyTaken {
            // A key with a scheduled end has been replaced, and cannot be renewed.
            guard let own = details.bindings.first(where: { $0.key == request.key }), own.isActive, own.endsAt == nil
            else { return .keyBound }
        } else {
            guard details.bindings.count < BindingRequest.keyLimit else { return .tooManyKeys }
        }
        guard request.shown.isSuperset(of: details.device.shown) else { return .extensionWithheld }
        if facts.isSerialIssued { return .serialUsed }
        if details.bindings.isEmpty, let attested = details.attestation?.certificateKey, attested != request.key {
            return .keyMismatch
        }
        return refusal(of: request.admission, facts, details.device, at: time)
    }

    /// Returns whether the device may bind the key over the connection on which it asks.
    private static func isPermitted(
        _ request: BindingRequest, _ facts: StoreFacts, _ details: DeviceDetails, at time: Int64
    ) -> Bool {
        switch request.renewal {
        case .permitted: return true
        case .ofDevice(let device): return device == details.device.id
        case .afterExpiry(let grace):
            guard let newest = details.bindings.last else { return true }
            let isRepeated =
                details.bindings.contains {
                    $0.key == request.key && $0.createdAt >= newest.createdAt
                        && time - $0.createdAt <= KeyRenewal.repetitionTime
                }
            let isWithinGrace = facts.certificateEnd.map { $0 <= time && time - $0 <= grace } ?? false
            return isRepeated || isWithinGrace
        }
    }

    private static func refusal(
        of admission: AdmissionGrant, _ facts: StoreFacts, _ device: Device, at time: Int64
    ) -> KeyBindingRefusal? {
        let isPending = device.state == .pending
        switch admission {
        case .open: return nil
        case .approval: return isPending && device.approvedAt == nil ? .awaitingApproval : nil
        case .earlier: return isPending ? .admissionRequired : nil
        // A presented token is checked even if the device is active.
        case .token(let token, let subject):
            switch facts.condition(of: token, .token, at: time) {
            case .expired: return .tokenExpired
            case .used: return .tokenUsed
            case .unused: break
            }
            if facts.barredSubjects.contains(subject) { return .subjectRevoked }
            if let known = device.subject, known != subject { return .subjectMismatch }
            return nil
        }
    }

    /// Returns the writes of an accepted binding.
    private static func writes(
        for request: BindingRequest, _ details: DeviceDetails, _ window: CounterWindow, at time: Int64
    ) -> ([StoreWrite], KeyBindingKind) {
        let device = details.device
        var writes: [StoreWrite] = [
            .spend(request.counter, of: device.id, window, device.shown.union(request.shown)),
            .use(request.nonce, .nonce),
        ]
        if case .token(let token, let subject) = request.admission {
            writes += [.use(token, .token), .setSubject(subject, of: device.id)]
        }
        let kind: KeyBindingKind
        if details.bindings.contains(where: { $0.key == request.key }) {
            kind = .renewal
        } else {
            kind = details.bindings.isEmpty ? .first : .rotation
            if kind == .rotation { writes.append(.scheduleEnds(of: device.id, at: time + request.overlap)) }
            writes.append(.bind(request.key, to: device.id, at: time))
        }
        writes.append(.issue(request.serial, for: request.key, until: request.notAfter))
        if device.state == .pending { writes.append(.activate(device.id, at: time)) }
        if let phone = request.phone { writes.append(.keepPhone(phone, of: device.id)) }
        if let attestation = request.keyAttestation {
            writes.append(.keepKeyAttestation(attestation, of: device.id, at: time))
        }
        if !request.app.isEmpty { writes.append(.keepApp(request.app, of: device.id)) }
        return (writes, kind)
    }
}
