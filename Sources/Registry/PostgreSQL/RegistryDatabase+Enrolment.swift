internal import Vocabulary

// Initialization and key binding: the same questions in the same order as the store in a file asks, but all of them at once, and
// then everything is written at once. Everything that can refuse is asked before the first write. Times are seconds since
// 1970-01-01T00:00:00Z.
extension RegistryDatabase {
    func initialize(_ request: InstanceRegistration, at time: Int64) throws -> InitializationVerdict {
        let key = request.identity.hardwareKey
        let details = Self.details(of: .hardwareKey(key))
        let looks =
            details + [
                Self.useLook, Self.look(at: request.nonce, in: .nonces), Self.look(atBarred: key, .hardware),
            ]
        // A device without a binding is not announced, so it need not wait for transactions that announce a change.
        // What makes it the only one of its key and its nonce are the tables' keys; that nobody bars the key meanwhile,
        // that both are serializable.
        return try decide(.unordered, by: looks, at: time) { answers in
            let known = try Self.details(answers[..<details.count])
            let (store, used, barred) = (answers[details.count], answers[details.count + 1], answers[details.count + 2])
            guard Self.isCurrent(request.epoch, store) else { return .refused(.refused(.epochChanged)) }
            let nonce = try Self.standing(of: request.nonce, in: .nonces, store, used, time)
            guard nonce != .expired else { return .refused(.refused(.nonceExpired)) }
            // Before the nonce's use is checked: a repeated request has used it.
            if let known { return .refused(request.repetition(by: known)) }
            if barred.rows > 0 { return .refused(.refused(.deviceRevoked)) }
            guard nonce != .used else { return .refused(.refused(.nonceUsed)) }
            let changes =
                Self.rows(of: request.identity, showing: request.shown, activatedAt: nil, time)
                + Self.rows(of: request.attestation, key, time) + [Self.use(request.nonce, in: .nonces)]
            return .write(changes + details, noting: nil) { written in
                guard let made = try Self.details(written[changes.count...]) else { throw StoreError.deviceUnknown }
                return .registered(made)
            }
        }
    }

    /// In the database, whatever this process remembers.
    private static func isCurrent(_ epoch: RandomID, _ store: DatabaseResult) -> Bool {
        store.rows == 1 && RandomID(store.bytes(0, 0)) == epoch
    }

    private static func rows(
        of attestation: AttestationRecord, _ hardwareKey: KeyID, _ time: Int64
    ) -> [DatabaseStatement] {
        let attested = DatabaseStatement(
            """
            INSERT INTO attestation (device, digest, certificate_key, os_version)
            SELECT id, $2::bytea, $3::bytea, $4::text FROM device WHERE hardware_key = $1
            """,
            [
                .key(hardwareKey), .bytes(attestation.digest.bytes), .bytes(attestation.certificateKey?.bytes),
                .text(attestation.systemVersion?.description),
            ])
        guard let receipt = attestation.receipt else { return [attested] }
        // Due at once: the refresher finds when it makes sense to ask.
        let kept = DatabaseStatement(
            """
            INSERT INTO receipt (device, risk_metric, next_at, content)
            SELECT id, $2::bigint, $3::bigint, $4::bytea FROM device WHERE hardware_key = $1
            """,
            [
                .key(hardwareKey), .integer(attestation.riskMetric.map(Int64.init)), .integer(time), .bytes(receipt),
            ])
        return [attested, kept]
    }

    /// - Parameter spending: called with the device before its counter is written: from here on the value is spent, whatever
    ///   becomes of the transaction.
    func bindKey(
        _ request: BindingRequest, at time: Int64, spending: (DeviceID) -> Void
    ) throws -> KeyBindingVerdict {
        try decide(.changing, by: BindingSnapshot.questions(request), at: time) { answers in
            let look = try BindingSnapshot(answers)
            guard Self.isCurrent(request.epoch, look.store) else { return .refused(.refused(.epochChanged)) }
            guard let details = look.details else { return .refused(.refused(.deviceUnknown)) }
            if let refusal = try look.refusal(of: request, details, time) { return .refused(.refused(refusal)) }
            var window = try look.counter.window(0, 0)
            switch window.accept(request.counter, mode: request.mode) {
            case .replayed: return .refused(.refused(.counterReplayed))
            case .late: return .refused(.refused(.counterLate))
            case .accepted: break
            }
            let device = details.device.id
            spending(device)
            let (changes, kind) = Self.rows(of: request, details, window, time)
            return .write(changes + Self.details(of: .id(device)), noting: device) { written in
                guard let bound = try Self.details(written[changes.count...]) else { throw StoreError.deviceUnknown }
                return .bound(bound, kind)
            }
        }
    }

    /// What was decided.
    private static func rows(
        of request: BindingRequest, _ details: DeviceDetails, _ window: CounterWindow, _ time: Int64
    ) -> ([DatabaseStatement], KeyBindingKind) {
        let device = details.device
        var changes = [
            DatabaseStatement(
                """
                UPDATE counter SET highest = $1, bits = $2, shown_extensions = $3, standing = standing + 1
                WHERE device = $4
                """,
                [
                    .integer(Int64(window.highest)), .bytes(window.bits),
                    .integer(Int64(device.shown.union(request.shown).rawValue)), .device(device.id),
                ]),
            use(request.nonce, in: .nonces),
        ]
        if case .token(let token, let subject) = request.admission {
            changes += [
                use(token, in: .tokens),
                DatabaseStatement(
                    "UPDATE device SET subject = $1 WHERE id = $2", [.bytes(subject.bytes), .device(device.id)]),
            ]
        }
        let kind: KeyBindingKind
        if details.bindings.contains(where: { $0.key == request.key }) {
            kind = .renewal
        } else {
            kind = details.bindings.isEmpty ? .first : .rotation
            // One that ends sooner anyway is not prolonged.
            let ended = DatabaseStatement(
                """
                UPDATE binding SET ends_at = $1
                WHERE device = $2 AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > $1)
                """, [.integer(time + request.overlap), .device(device.id)])
            changes += [ended, row(ofBinding: request.key, device.id, time)]
        }
        changes.append(
            DatabaseStatement(
                "INSERT INTO issued_certificate (serial, binding, not_after) VALUES ($1, $2, $3)",
                [.bytes(request.serial.bytes), .key(request.key), .integer(request.notAfter)]))
        if device.state == .pending {
            changes.append(
                DatabaseStatement(
                    "UPDATE device SET activated_at = $1 WHERE id = $2", [.integer(time), .device(device.id)]))
        }
        return (changes, kind)
    }
}
