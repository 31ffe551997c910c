public import EventLoop
internal import GRDB
public import Registry
internal import RevocationJournal
internal import Vocabulary

// Initialization and key binding. All refusals precede the first write. Times are in seconds since
// 1970-01-01T00:00:00Z.
extension RegistryStore {
    /// Registers a pending device for an attestation, and spends its nonce.
    public func initialize(
        _ request: InstanceRegistration, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> InitializationVerdict {
        try transaction { database in
            guard request.epoch == identity.epoch else { return .refused(.epochChanged) }
            let nonce = try standing(of: request.nonce, in: .nonces, time, database)
            guard nonce != .expired else { return .refused(.nonceExpired) }
            // This comes before the use of the nonce, because a repeated request has used it.
            if let known = try device(withHardwareKey: request.identity.hardwareKey, database) {
                return request.repetition(by: try existing(known, database))
            }
            if try isBarred(request.identity.hardwareKey, .hardware, database) { return .refused(.deviceRevoked) }
            guard nonce != .used else { return .refused(.nonceUsed) }
            try markUsed(request.nonce, in: .nonces, database)
            let id = try insertRow(request.identity, showing: request.shown, activatedAt: nil, time, database)
            try insertAttestation(request.attestation, id, time, database)
            return .registered(try existing(id, database))
        }
    }

    private func insertAttestation(
        _ attestation: AttestationRecord, _ device: DeviceID, _ time: Int64, _ database: Database
    ) throws {
        try database.cachedStatement(
            sql: "INSERT INTO attestation (device, digest, certificate_key, os_version) VALUES (?, ?, ?, ?)"
        ).execute(arguments: [
            device.number, attestation.digest.blob, attestation.certificateKey?.blob,
            attestation.systemVersion?.description,
        ])
        if let receipt = attestation.receipt {
            try SQLiteReceipts.insert(receipt, riskMetric: attestation.riskMetric, device, time, database)
        }
    }

    /// Binds an mTLS key to the device of a hardware key. Spends the nonce, the assertion's counter value and the
    /// presented token.
    public func bindKey(
        _ request: BindingRequest, at time: Int64 = WallClock.seconds
    ) throws(StoreError) -> KeyBindingVerdict {
        var spent: DeviceID?
        do throws(StoreError) {
            let verdict = try transaction { database -> KeyBindingVerdict in
                guard request.epoch == identity.epoch else { return .refused(.epochChanged) }
                guard let id = try device(withHardwareKey: request.hardwareKey, database) else {
                    return .refused(.deviceUnknown)
                }
                let details = try existing(id, database)
                if let refusal = try refusal(of: request, details, time, database) { return .refused(refusal) }
                // This comes last, because an accepted value stays in the writer's record even if the transaction
                // fails.
                switch try spend(request.counter, of: id, mode: request.mode, database) {
                case .replayed: return .refused(.counterReplayed)
                case .late: return .refused(.counterLate)
                case .accepted: spent = id
                }
                return try bind(request, details, time, database)
            }
            if case .bound(let details, .rotation) = verdict { attest(WitnessEntry.all(of: details, at: time)) }
            return verdict
        } catch {
            // A COMMIT that failed may still be durable.
            if let spent { owed.append((spent, request.counter)) }
            throw error
        }
    }

    private func refusal(
        of request: BindingRequest, _ details: DeviceDetails, _ time: Int64, _ database: Database
    ) throws -> KeyBindingRefusal? {
        switch try standing(of: request.nonce, in: .nonces, time, database) {
        case .expired: return .nonceExpired
        case .used: return .nonceUsed
        case .unused: break
        }
        let isBound = try isTaken(request.key, database)
        let isIssued = try SQLiteCertificates.isIssued(request.serial, database)
        if let refusal = request.refusal(by: details, isBound: isBound, isIssued: isIssued) { return refusal }
        return try refusal(of: request.admission, details.device, time, database)
    }

    private func refusal(
        of admission: AdmissionGrant, _ device: Device, _ time: Int64, _ database: Database
    ) throws -> KeyBindingRefusal? {
        let isPending = device.state == .pending
        switch admission {
        case .open: return nil
        case .approval: return isPending && device.approvedAt == nil ? .awaitingApproval : nil
        case .earlier: return isPending ? .admissionRequired : nil
        case .token(let token, let subject):
            switch try standing(of: token, in: .tokens, time, database) {
            case .expired: return .tokenExpired
            case .used: return .tokenUsed
            case .unused: break
            }
            if try isRevoked(subject, database) { return .subjectRevoked }
            if let known = device.subject, known != subject { return .subjectMismatch }
            return nil
        }
    }

    private func spend(
        _ counter: UInt32, of device: DeviceID, mode: CounterMode, _ database: Database
    ) throws -> CounterVerdict {
        var becomesAhead = false
        let verdict = try update(device, database) { $0.spend(counter, mode: mode, becomesAhead: &becomesAhead) }
        if becomesAhead { ahead.append(device) }
        // The row of the device has just been read.
        guard let verdict else { throw UnreadableRow(table: "counter") }
        return verdict
    }

    /// Writes an accepted binding.
    private func bind(
        _ request: BindingRequest, _ details: DeviceDetails, _ time: Int64, _ database: Database
    ) throws -> KeyBindingVerdict {
        let device = details.device
        try journal.write(request.counter, of: device.id, try DirectStatement(database, Journal.insertion))
        try add(request.shown, to: device.id, database)
        try markUsed(request.nonce, in: .nonces, database)
        if case .token(let token, let subject) = request.admission {
            try markUsed(token, in: .tokens, database)
            try database.execute(
                sql: "UPDATE device SET subject = ? WHERE id = ?", arguments: [subject.blob, device.id.number])
        }
        let kind: KeyBindingKind
        if details.bindings.contains(where: { $0.key == request.key }) {
            kind = .renewal
        } else {
            kind = details.bindings.isEmpty ? .first : .rotation
            try endOthers(of: device.id, at: time + request.overlap, database)
            if kind == .rotation { try raiseStanding(database) }
            try insertBinding(request.key, device.id, time, database)
        }
        try SQLiteCertificates.insert(request.serial, of: request.key, until: request.notAfter, database)
        if device.state == .pending {
            try database.execute(
                sql: "UPDATE device SET activated_at = ? WHERE id = ?", arguments: [time, device.id.number])
        }
        return .bound(try existing(device.id, database), kind)
    }

    /// Schedules the end of the device's other bindings. A binding that ends earlier is not prolonged.
    private func endOthers(of device: DeviceID, at end: Int64, _ database: Database) throws {
        try database.execute(
            sql: """
                UPDATE binding SET ends_at = ?
                WHERE device = ? AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > ?)
                """, arguments: [end, device.number, end])
    }

    // MARK: - Single use

    /// The kinds of values that can be used once. Each has its own table.
    enum SingleUses: CaseIterable {
        case nonces
        case tokens

        fileprivate var table: String { self == .nonces ? "used_nonce" : "used_token" }
        /// The column of `store` with the latest expiry that was removed from the table.
        fileprivate var removed: String { self == .nonces ? "nonces_removed" : "tokens_removed" }
    }

    enum SingleUseState {
        case unused
        case used
        case expired
    }

    func standing(
        of item: SingleUse, in uses: SingleUses, _ time: Int64, _ database: Database
    ) throws -> SingleUseState {
        let removed = try Int64.fetchOne(database, sql: "SELECT \(uses.removed) FROM store") ?? 0
        // After a clock was set back, removed entries must stay refused.
        guard item.expiresAt > max(time, removed) else { return .expired }
        let statement = try database.cachedStatement(sql: "SELECT 1 FROM \(uses.table) WHERE id = ?")
        return try Int.fetchOne(statement, arguments: [item.id.blob]) == nil ? .unused : .used
    }

    /// Marks a value as used.
    ///
    /// - Parameter item: An unused value. The primary key of the table refuses others.
    private func markUsed(_ item: SingleUse, in uses: SingleUses, _ database: Database) throws {
        try database.cachedStatement(sql: "INSERT INTO \(uses.table) (id, expires_at) VALUES (?, ?)")
            .execute(arguments: [item.id.blob, item.expiresAt])
    }

    /// Returns a notice if admission tokens are refused for longer than their lifetime, because the clock was ahead
    /// when one was removed.
    func refusedTokens(at time: Int64) throws(StoreOpenError) -> WitnessNotice? {
        do {
            let end = try read { try Int64.fetchOne($0, sql: "SELECT tokens_removed FROM store") ?? 0 }
            return WitnessNotice(tokensRefusedUntil: end, at: time)
        } catch {
            throw .failed(path: path, detail: lastFault ?? "\(error)")
        }
    }

    /// Removes the oldest expired rows of each kind, up to a limit. Writes nothing if there are none.
    ///
    /// - Returns: Whether there are more.
    func removeExpired(at time: Int64, limit: Int = 500) throws(StoreError) -> Bool {
        var isLeft = false
        for uses in SingleUses.allCases {
            let expired = try read { database in
                try Int64.fetchAll(
                    try database.cachedStatement(
                        sql: "SELECT expires_at FROM \(uses.table) WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"),
                    arguments: [time, limit])
            }
            guard let last = expired.last else { continue }
            try transaction { database in
                try database.execute(
                    sql: "UPDATE store SET \(uses.removed) = max(\(uses.removed), ?)", arguments: [last])
                try database.execute(
                    sql: """
                        DELETE FROM \(uses.table) WHERE id IN (
                            SELECT id FROM \(uses.table) WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)
                        """, arguments: [last, limit])
            }
            if expired.count == limit { isLeft = true }
        }
        return isLeft
    }

    // MARK: - Expiry of bindings

    /// Ends bindings whose time has come, up to a limit. Writes nothing if there are none.
    ///
    /// The end is written, so that it stays after a clock was set back.
    ///
    /// - Returns: The keys. There may be more if their number reaches the limit.
    func endDueBindings(at time: Int64, limit: Int) throws(StoreError) -> [KeyID] {
        let due = try read { database in
            try Row.fetchAll(
                try database.cachedStatement(
                    sql: """
                        SELECT key FROM binding WHERE ends_at IS NOT NULL AND ended_at IS NULL AND ends_at <= ?
                        ORDER BY ends_at LIMIT ?
                        """),
                arguments: [time, limit]
            )
            .map { row in
                guard let key = KeyID(blob: row[0]) else { throw UnreadableRow(table: "binding") }
                return key
            }
        }
        guard !due.isEmpty else { return [] }
        try transaction { database in
            let statement = try database.cachedStatement(
                sql: "UPDATE binding SET ended_at = ends_at WHERE key = ? AND ended_at IS NULL")
            for key in due { try statement.execute(arguments: [key.blob]) }
        }
        for key in due { bindings.update(key) { $0.isActive = false } }
        return due
    }
}
