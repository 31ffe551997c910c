internal import Registry
internal import Vocabulary

/// The operations of enrolment. Times are in seconds since 1970-01-01T00:00:00Z.
///
/// They check the same conditions in the same order as the SQLite store. All conditions are read in one round trip,
/// before anything is written in a second one.
struct DatabaseEnrolment {
    private let database: RegistryDatabase

    init(_ database: RegistryDatabase) {
        self.database = database
    }

    func initialize(_ request: InstanceRegistration, at time: Int64) throws -> InitializationVerdict {
        let key = request.identity.hardwareKey
        let details = DeviceStatements.details(of: .hardwareKey(key))
        let looks =
            details + [
                DeviceStatements.useLook, DeviceStatements.look(at: request.nonce, in: .nonces),
                DeviceStatements.look(atBarred: key, .hardware),
            ]
        // Devices without a binding are not announced, so this does not wait for transactions that announce a change.
        // The primary keys make hardware key and nonce unique, and serializable isolation detects a key that is barred
        // meanwhile.
        return try database.decide(.unordered, by: looks, at: time) { answers in
            let known = try DeviceStatements.details(answers[..<details.count])
            let (store, used, barred) = (answers[details.count], answers[details.count + 1], answers[details.count + 2])
            guard Self.isCurrent(request.epoch, store) else { return .refused(.refused(.epochChanged)) }
            let nonce = try DeviceStatements.state(of: request.nonce, in: .nonces, store, used, time)
            guard nonce != .expired else { return .refused(.refused(.nonceExpired)) }
            // This comes before the use of the nonce, because a repeated request has used it.
            if let known { return .refused(request.repetition(by: known)) }
            if barred.rows > 0 { return .refused(.refused(.deviceRevoked)) }
            guard nonce != .used else { return .refused(.refused(.nonceUsed)) }
            let changes =
                DeviceStatements.rows(of: request.identity, showing: request.shown, activatedAt: nil, time)
                + Self.rows(of: request.attestation, key, time) + [DeviceStatements.use(request.nonce, in: .nonces)]
            return .write(changes + details, noting: nil) { written in
                guard let made = try DeviceStatements.details(written[changes.count...]) else {
                    throw StoreError.deviceUnknown
                }
                return .registered(made)
            }
        }
    }

    /// Returns whether the epoch is current in the database, which may differ from the one in memory.
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
        // The receipt is due at once. The refresher finds the right time for a request.
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

    /// Binds a key.
    ///
    /// - Parameter spending: Receives the device before its counter is written. From then on the value counts as spent,
    ///   whatever the outcome of the transaction.
    func bindKey(
        _ request: BindingRequest, at time: Int64, spending: (DeviceID) -> Void
    ) throws -> KeyBindingVerdict {
        try database.decide(.changing, by: BindingSnapshot.questions(request), at: time) { answers in
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
            return .write(changes + DeviceStatements.details(of: .id(device)), noting: device) { written in
                guard let bound = try DeviceStatements.details(written[changes.count...]) else {
                    throw StoreError.deviceUnknown
                }
                return .bound(bound, kind)
            }
        }
    }

    /// Returns the statements for an accepted request.
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
            DeviceStatements.use(request.nonce, in: .nonces),
        ]
        if case .token(let token, let subject) = request.admission {
            changes += [
                DeviceStatements.use(token, in: .tokens),
                DatabaseStatement(
                    "UPDATE device SET subject = $1 WHERE id = $2", [.bytes(subject.bytes), .device(device.id)]),
            ]
        }
        let kind: KeyBindingKind
        if details.bindings.contains(where: { $0.key == request.key }) {
            kind = .renewal
        } else {
            kind = details.bindings.isEmpty ? .first : .rotation
            // A binding that ends earlier is not prolonged.
            let ended = DatabaseStatement(
                """
                UPDATE binding SET ends_at = $1
                WHERE device = $2 AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > $1)
                """, [.integer(time + request.overlap), .device(device.id)])
            changes += [ended, DeviceStatements.row(ofBinding: request.key, device.id, time)]
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

/// The state that decides on a key binding, read in one snapshot.
private struct BindingSnapshot {
    let store: DatabaseResult
    let details: DeviceDetails?
    /// The counter row, which is locked until the transaction ends.
    let counter: DatabaseResult
    private let isTaken: Bool
    private let isIssued: Bool
    private let nonce: DatabaseResult
    /// The results for the admission token and its subject. Nil if no token was presented.
    private let token: (used: DatabaseResult, revoked: DatabaseResult)?

    static func questions(_ request: BindingRequest) -> [DatabaseStatement] {
        var questions =
            DeviceStatements.details(of: .hardwareKey(request.hardwareKey))
            + DeviceStatements.looks(atTaken: request.key) + [
                DeviceStatements.useLook,
                DatabaseStatement(
                    """
                    SELECT highest, bits FROM counter
                    WHERE device = (SELECT id FROM device WHERE hardware_key = $1) FOR UPDATE
                    """, [.key(request.hardwareKey)]),
                DeviceStatements.look(atIssued: request.serial),
                DeviceStatements.look(at: request.nonce, in: .nonces),
            ]
        if case .token(let token, let subject) = request.admission {
            questions += [
                DeviceStatements.look(at: token, in: .tokens), DeviceStatements.look(atRevoked: subject),
            ]
        }
        return questions
    }

    /// Reads a snapshot.
    ///
    /// - Parameter answers: The results of `questions`.
    init(_ answers: [DatabaseResult]) throws {
        let others = DeviceStatements.detailsCount
        details = try DeviceStatements.details(answers[..<others])
        isTaken = answers[others].rows + answers[others + 1].rows > 0
        store = answers[others + 2]
        counter = answers[others + 3]
        isIssued = answers[others + 4].rows > 0
        nonce = answers[others + 5]
        token = answers.count > others + 6 ? (answers[others + 6], answers[others + 7]) : nil
    }

    func refusal(of request: BindingRequest, _ details: DeviceDetails, _ time: Int64) throws -> KeyBindingRefusal? {
        switch try DeviceStatements.state(of: request.nonce, in: .nonces, store, nonce, time) {
        case .expired: return .nonceExpired
        case .used: return .nonceUsed
        case .unused: break
        }
        if let refusal = request.refusal(by: details, isBound: isTaken, isIssued: isIssued) { return refusal }
        let isPending = details.device.state == .pending
        switch request.admission {
        case .open: return nil
        case .approval: return isPending && details.device.approvedAt == nil ? .awaitingApproval : nil
        case .earlier: return isPending ? .admissionRequired : nil
        case .token(let shown, let subject):
            // A presented token is checked even if the device is active.
            guard let token else { return .admissionRequired }
            switch try DeviceStatements.state(of: shown, in: .tokens, store, token.used, time) {
            case .expired: return .tokenExpired
            case .used: return .tokenUsed
            case .unused: break
            }
            if token.revoked.rows > 0 { return .subjectRevoked }
            if let known = details.device.subject, known != subject { return .subjectMismatch }
            return nil
        }
    }
}
