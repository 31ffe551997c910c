internal import Vocabulary

// Initialization and key binding: the same questions in the same order as the store in a file asks. Everything that can refuse
// is asked before the first write. Times are seconds since 1970-01-01T00:00:00Z.
extension RegistryDatabase {
    func initialize(_ request: InstanceInitialization, at time: Int64) throws -> InitializationVerdict {
        try transaction(.changing) {
            guard try isCurrent(request.epoch) else { return .refused(.epochChanged) }
            let nonce = try standing(of: request.nonce, in: .nonces, time)
            guard nonce != .expired else { return .refused(.nonceExpired) }
            // Before the nonce's use is looked at: whoever repeats has used it.
            if let known = try device(withHardwareKey: request.identity.hardwareKey) {
                return request.repetition(by: try existing(known))
            }
            if try isBarred(request.identity.hardwareKey, .hardware) { return .refused(.deviceRevoked) }
            guard nonce != .used, try markUsed(request.nonce, in: .nonces) else { return .refused(.nonceUsed) }
            let id = try insertRow(request.identity, showing: request.shown, activatedAt: nil, time)
            try insertAttestation(request.attestation, id, time)
            return .registered(try existing(id))
        }
    }

    /// In the database, whatever this process remembers.
    private func isCurrent(_ epoch: RandomID) throws -> Bool {
        RandomID(try run("SELECT epoch FROM store").bytes(0, 0)) == epoch
    }

    private func insertAttestation(_ attestation: AttestationRecord, _ device: DeviceID, _ time: Int64) throws {
        _ = try run(
            "INSERT INTO attestation (device, digest, certificate_key) VALUES ($1, $2, $3)",
            [.device(device), .bytes(attestation.digest.bytes), .bytes(attestation.certificateKey?.bytes)])
        guard let receipt = attestation.receipt else { return }
        // Due at once: whoever looks at it finds when it makes sense to ask.
        _ = try run(
            "INSERT INTO receipt (device, risk_metric, next_at, content) VALUES ($1, $2, $3, $4)",
            [.device(device), .integer(attestation.riskMetric.map(Int64.init)), .integer(time), .bytes(receipt)])
    }

    /// - Parameter spending: called with the device before its counter is written: from here on the value is spent, whatever
    ///   becomes of the transaction.
    func bindKey(
        _ request: KeyBinding, at time: Int64, spending: (DeviceID) -> Void
    ) throws -> KeyBindingVerdict {
        try transaction(.changing) {
            guard try isCurrent(request.epoch) else { return .refused(.epochChanged) }
            guard let id = try device(withHardwareKey: request.hardwareKey) else { return .refused(.deviceUnknown) }
            let details = try existing(id)
            if let refusal = try refusal(of: request, details, time) { return .refused(refusal) }
            let row = try run("SELECT highest, bits FROM counter WHERE device = $1 FOR UPDATE", [.device(id)])
            var window = try row.window(0, 0)
            switch window.accept(request.counter, mode: request.mode) {
            case .replayed: return .refused(.counterReplayed)
            case .late: return .refused(.counterLate)
            case .accepted: break
            }
            spending(id)
            _ = try run(
                """
                UPDATE counter SET highest = $1, bits = $2, shown_extensions = $3, standing = standing + 1
                WHERE device = $4
                """,
                [
                    .integer(Int64(window.highest)), .bytes(window.bits),
                    .integer(Int64(details.device.shown.union(request.shown).rawValue)), .device(id),
                ])
            return try bind(request, details, time)
        }
    }

    private func refusal(
        of request: KeyBinding, _ details: DeviceDetails, _ time: Int64
    ) throws -> KeyBindingRefusal? {
        switch try standing(of: request.nonce, in: .nonces, time) {
        case .expired: return .nonceExpired
        case .used: return .nonceUsed
        case .unused: break
        }
        let isBound = try isTaken(request.key)
        if let refusal = request.refusal(by: details, isBound: isBound, isIssued: try isIssued(request.serial)) {
            return refusal
        }
        let isPending = details.device.state == .pending
        switch request.admission {
        case .open: return nil
        case .approval: return isPending && details.device.approvedAt == nil ? .awaitingApproval : nil
        case .earlier: return isPending ? .admissionRequired : nil
        case .token(let token, let subject):
            switch try standing(of: token, in: .tokens, time) {
            case .expired: return .tokenExpired
            case .used: return .tokenUsed
            case .unused: break
            }
            if try isRevoked(subject) { return .subjectRevoked }
            if let known = details.device.subject, known != subject { return .subjectMismatch }
            return nil
        }
    }

    /// Writes what was decided.
    private func bind(_ request: KeyBinding, _ details: DeviceDetails, _ time: Int64) throws -> KeyBindingVerdict {
        let device = details.device
        guard try markUsed(request.nonce, in: .nonces) else { throw RaceLost() }
        if case .token(let token, let subject) = request.admission {
            guard try markUsed(token, in: .tokens) else { throw RaceLost() }
            _ = try run(
                "UPDATE device SET subject = $1 WHERE id = $2", [.bytes(subject.bytes), .device(device.id)])
        }
        let kind: KeyBindingKind
        if details.bindings.contains(where: { $0.key == request.key }) {
            kind = .renewal
        } else {
            kind = details.bindings.isEmpty ? .first : .rotation
            // One that ends sooner anyway is not prolonged.
            _ = try run(
                """
                UPDATE binding SET ends_at = $1
                WHERE device = $2 AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > $1)
                """, [.integer(time + request.overlap), .device(device.id)])
            try insertBinding(request.key, device.id, time)
        }
        _ = try run(
            "INSERT INTO issued_certificate (serial, binding, not_after) VALUES ($1, $2, $3)",
            [.bytes(request.serial.bytes), .key(request.key), .integer(request.notAfter)])
        if device.state == .pending {
            _ = try run(
                "UPDATE device SET activated_at = $1 WHERE id = $2", [.integer(time), .device(device.id)])
        }
        try note(device.id, at: time)
        return .bound(try existing(device.id), kind)
    }

    /// Somebody else has used what was unused a moment ago. Serializable transactions exclude it; nothing is written if a database
    /// does not keep its promise.
    private struct RaceLost: Error {}
}
