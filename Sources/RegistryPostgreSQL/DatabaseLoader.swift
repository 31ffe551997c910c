internal import EventLoop
public import Registry
internal import RevocationJournal
internal import Vocabulary

/// An import into a database. Many records share a statement, because each statement takes a round trip.
final class DatabaseLoader {
    private let database: RegistryDatabase
    private var head: ExportHead?
    private var devices: [(device: ExportedDevice, line: Int)] = []
    private var weight = 0
    private var certificates: [ExportedCertificate] = []
    private var tokens: [SingleUse] = []
    private var subjects: [(subject: Fingerprint, time: Int64)] = []
    private var barred: [BarredKey] = []
    private var federation: [StoreWrite] = []

    private static let rows = 256

    private init(_ database: RegistryDatabase) {
        self.database = database
    }

    /// Imports an export in one transaction.
    ///
    /// - Parameters:
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    ///   - fill: Adds the records in order, starting with the head. If it throws, the transaction is rolled back.
    static func load(
        into database: RegistryDatabase, at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        do {
            let clocks = WitnessNotice(clock: WallClock.seconds, database: try database.clock())
            if let clocks { throw RegistryLoadError.failed(clocks.description) }
            // `transaction` cannot be used, because the records are available only once.
            _ = try database.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            do {
                // Nothing is enrolled or registered meanwhile. A running gateway then finds another store and refuses
                // everything until it is restarted.
                if database.kind.locksTables { _ = try database.execute(RegistryDatabase.lock) }
                guard try database.run("SELECT 1::bigint FROM device LIMIT 1").rows == 0 else {
                    throw RegistryLoadError.notEmpty
                }
                let loader = DatabaseLoader(database)
                let loading = RegistryLoading(at: time) { record, line throws(RegistryLoadError) in
                    do { try loader.add(record, line: line) } catch { throw RegistryLoadError(error) }
                }
                try fill(loading)
                try loader.finish(at: time)
            } catch {
                // A failed connection is rolled back by its end.
                _ = try? database.execute("ROLLBACK")
                throw error
            }
            try database.commit()
        } catch let error as RegistryLoadError {
            throw error
        } catch {
            throw .failed("\(database.settings.name): \(DatabaseFailure(error))")
        }
    }

    // MARK: - Records

    private func add(_ record: ExportRecord, line: Int) throws {
        switch record {
        case .head(let head): self.head = head
        case .device(let device):
            devices.append((device, line))
            weight += device.weight
            if devices.count >= Self.rows || weight >= ExportPage.weight { try writeDevices() }
        case .certificate(let certificate):
            // The certificate may belong to a binding of the last devices.
            try writeDevices()
            certificates.append(certificate)
            if certificates.count >= Self.rows { try writeCertificates() }
        case .usedToken(let token):
            tokens.append(token)
            if tokens.count >= Self.rows { try writeTokens() }
        case .revokedSubject(let subject, let time):
            subjects.append((subject, time))
            if subjects.count >= Self.rows { try writeSubjects() }
        case .barredKey(let key):
            barred.append(key)
            if barred.count >= Self.rows { try writeBarred() }
        case .service(let service):
            federation.append(.federation(.keep(service)))
            if federation.count >= Self.rows { try writeFederation() }
        case .federationToken(let token):
            // Tokens may belong to the last devices.
            try writeDevices()
            federation.append(.federation(.insert(token)))
            if federation.count >= Self.rows { try writeFederation() }
        case .end: break
        }
    }

    // MARK: - Devices

    private func writeDevices() throws {
        guard !devices.isEmpty else { return }
        defer {
            devices.removeAll(keepingCapacity: true)
            weight = 0
        }
        try lookForConflicts()
        let rows = devices.map(\.device)
        let numbers = try insertRows(rows)
        _ = try database.run(
            """
            INSERT INTO counter (device, highest, bits, shown_extensions)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[])
            """,
            [
                .integers(numbers), .integers(rows.map { Int64($0.window.highest) }),
                .bytesList(rows.map(\.window.bits)), .integers(rows.map { Int64($0.shown.rawValue) }),
            ])
        try insertBindings(zip(numbers, rows).flatMap { number, row in row.bindings.map { (number, $0) } })
        try insertAttestations(zip(numbers, rows).compactMap { number, row in row.attestation.map { (number, $0) } })
        try insertReceipts(zip(numbers, rows).compactMap { number, row in row.receipt.map { (number, $0) } })
        try insertSignals(zip(numbers, rows).compactMap { number, row in row.signals.map { (number, $0) } })
    }

    private func lookForConflicts() throws {
        var hardwareKeys: Set<KeyID> = []
        var bindingKeys: Set<KeyID> = []
        var tags: Set<[UInt8]> = []
        for (device, line) in devices {
            guard hardwareKeys.insert(device.identity.hardwareKey).inserted else {
                throw RegistryLoadError.refused(line: line, .hardwareKeyTwice)
            }
            for binding in device.bindings where !bindingKeys.insert(binding.key).inserted {
                throw RegistryLoadError.refused(line: line, .bindingKeyTwice)
            }
            if let tag = device.attestation?.tag, !tags.insert(tag).inserted {
                throw RegistryLoadError.refused(line: line, .tagTwice(tag))
            }
        }
        let devices = try database.run(
            "SELECT hardware_key FROM device WHERE hardware_key = ANY($1)", [.bytesList(hardwareKeys.map(\.bytes))])
        let bindings = try database.run(
            "SELECT key FROM binding WHERE key = ANY($1)", [.bytesList(bindingKeys.map(\.bytes))])
        let tagged = try database.run(
            "SELECT tag FROM attestation WHERE tag = ANY($1)", [.bytesList(Array(tags))])
        let knownDevices = Set(try (0..<devices.rows).map { try devices.key($0, 0, "device") })
        let knownBindings = Set(try (0..<bindings.rows).map { try bindings.key($0, 0, "binding") })
        let knownTags = Set((0..<tagged.rows).map { tagged.bytes($0, 0) })
        for (device, line) in self.devices {
            if knownDevices.contains(device.identity.hardwareKey) {
                throw RegistryLoadError.refused(line: line, .hardwareKeyTwice)
            }
            if device.bindings.contains(where: { knownBindings.contains($0.key) }) {
                throw RegistryLoadError.refused(line: line, .bindingKeyTwice)
            }
            if let tag = device.attestation?.tag, knownTags.contains(tag) {
                throw RegistryLoadError.refused(line: line, .tagTwice(tag))
            }
        }
    }

    /// Inserts devices.
    ///
    /// - Returns: Their numbers, which grow in the order of the rows.
    private func insertRows(_ rows: [ExportedDevice]) throws -> [Int64] {
        let inserted = try database.run(
            """
            INSERT INTO device (hardware_key, app, platform, environment, point, registered_at, activated_at, approved_at,
                revoked_at, subject)
            SELECT hardware_key, app, platform, environment, point, registered_at, activated_at, approved_at, revoked_at,
                subject
            FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[],
                    $8::bigint[], $9::bigint[], $10::bytea[]) WITH ORDINALITY
                AS new (hardware_key, app, platform, environment, point, registered_at, activated_at, approved_at,
                    revoked_at, subject, place)
            ORDER BY place
            RETURNING id, hardware_key
            """,
            [
                .bytesList(rows.map(\.identity.hardwareKey.bytes)), .texts(rows.map(\.identity.app.description)),
                .texts(rows.map(\.identity.platform.rawValue)), .texts(rows.map(\.identity.environment.rawValue)),
                .bytesList(rows.map(\.identity.point.bytes)), .integers(rows.map(\.registeredAt)),
                .optionalIntegers(rows.map(\.activatedAt)), .optionalIntegers(rows.map(\.approvedAt)),
                .optionalIntegers(rows.map(\.revokedAt)), .optionalBytesList(rows.map { $0.subject?.bytes }),
            ])
        var numbers: [KeyID: Int64] = [:]
        for row in 0..<inserted.rows { numbers[try inserted.key(row, 1, "device")] = try inserted.integer(row, 0) }
        return try rows.map { row in
            guard let number = numbers[row.identity.hardwareKey] else { throw UnreadableRow(table: "device") }
            return number
        }
    }

    private func insertBindings(_ rows: [(device: Int64, binding: ExportedBinding)]) throws {
        guard !rows.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO binding (key, device, created_at, ended_at, ends_at)
            SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
            """,
            [
                .bytesList(rows.map(\.binding.key.bytes)), .integers(rows.map(\.device)),
                .integers(rows.map(\.binding.createdAt)), .optionalIntegers(rows.map(\.binding.endedAt)),
                .optionalIntegers(rows.map(\.binding.endsAt)),
            ])
    }

    private func insertAttestations(_ rows: [(device: Int64, attestation: ExportedAttestation)]) throws {
        guard !rows.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO attestation (device, \(SQLColumns.attested))
            SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::bigint[],
                $7::bytea[], $8::text[], $9::text[], $10::bigint[], $11::bytea[], $12::bigint[], $13::bigint[],
                $14::bigint[], $15::bigint[], $16::text[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[])
            """,
            [
                .integers(rows.map(\.device)), .bytesList(rows.map(\.attestation.digest.bytes)),
                .optionalBytesList(rows.map { $0.attestation.certificateKey?.bytes }),
                .texts(rows.map { $0.attestation.systemVersion?.description }),
                .texts(rows.map { $0.attestation.app.version?.description }),
                .optionalIntegers(rows.map { $0.attestation.app.distribution.map(Int64.init) }),
                .optionalBytesList(rows.map(\.attestation.tag)),
                .texts(rows.map { $0.attestation.phone?.securityLevel.rawValue }),
                .texts(rows.map { $0.attestation.phone?.bootState.rawValue }),
                .optionalIntegers(rows.map { $0.attestation.phone.map { $0.isLocked ? 1 : 0 } }),
                .optionalBytesList(rows.map { $0.attestation.phone?.bootKey }),
                .optionalIntegers(rows.map { $0.attestation.phone?.patchLevel.map(Int64.init) }),
                .optionalIntegers(rows.map { $0.attestation.phone?.vendorPatchLevel.map(Int64.init) }),
                .optionalIntegers(rows.map { $0.attestation.phone?.bootPatchLevel.map(Int64.init) }),
                .optionalIntegers(rows.map { $0.attestation.phone?.appVersion }),
                .texts(rows.map { $0.attestation.phone?.integrity?.text }),
                .optionalIntegers(rows.map { $0.attestation.phone?.integrity?.requestedAt }),
                .optionalIntegers(rows.map(\.attestation.attestedAt)),
                .optionalIntegers(rows.map { $0.attestation.isCertificateKeyAttested.map { $0 ? 1 : 0 } }),
                .integers(rows.map { $0.attestation.isKeyListed ? 1 : 0 }),
            ])
        let serials = rows.flatMap { device, attestation in (attestation.phone?.serials ?? []).map { (device, $0) } }
        guard !serials.isEmpty else { return }
        _ = try database.run(
            "INSERT INTO attested_serial (device, serial) SELECT * FROM unnest($1::bigint[], $2::text[])",
            [.integers(serials.map(\.0)), .texts(serials.map(\.1))])
    }

    private func insertReceipts(_ rows: [(device: Int64, receipt: ExportedReceipt)]) throws {
        guard !rows.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO receipt (device, risk_metric, created_at, next_at, asked_at, outcome, failures, content)
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
                $7::bigint[], $8::bytea[])
            """,
            [
                .integers(rows.map(\.device)), .optionalIntegers(rows.map { $0.receipt.riskMetric.map(Int64.init) }),
                .optionalIntegers(rows.map(\.receipt.refresh.createdAt)),
                .optionalIntegers(rows.map(\.receipt.refresh.nextAt)),
                .optionalIntegers(rows.map(\.receipt.refresh.askedAt)),
                .texts(rows.map { $0.receipt.refresh.outcome?.rawValue }),
                .integers(rows.map { Int64($0.receipt.refresh.failures) }), .bytesList(rows.map(\.receipt.content)),
            ])
    }

    private func insertSignals(_ rows: [(device: Int64, signals: Signals)]) throws {
        guard !rows.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO signals (\(SQLColumns.signals))
            SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[])
            """,
            [
                .integers(rows.map(\.device)), .integers(rows.map(\.signals.claimedAt)),
                .texts(rows.map { $0.signals.claims.system?.description }),
                .optionalIntegers(rows.map { $0.signals.claims.isDeviceSecure.map { $0 ? 1 : 0 } }),
                .bytesList(rows.map(\.signals.content)),
            ])
    }

    // MARK: - Other records

    private func writeCertificates() throws {
        guard !certificates.isEmpty else { return }
        // The key was bound after its device had been exported, so the certificate is left out like the binding.
        _ = try database.run(
            """
            INSERT INTO issued_certificate (serial, binding, not_after)
            SELECT new.serial, binding.key, new.not_after
            FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS new (serial, key, not_after)
            JOIN binding ON binding.key = new.key
            """,
            [
                .bytesList(certificates.map(\.serial.bytes)), .bytesList(certificates.map(\.key.bytes)),
                .integers(certificates.map(\.notAfter)),
            ])
        certificates.removeAll(keepingCapacity: true)
    }

    private func writeTokens() throws {
        guard !tokens.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO used_token (id, expires_at) SELECT * FROM unnest($1::bytea[], $2::bigint[])
            ON CONFLICT (id) DO NOTHING
            """, [.bytesList(tokens.map(\.id.bytes)), .integers(tokens.map(\.expiresAt))])
        tokens.removeAll(keepingCapacity: true)
    }

    private func writeSubjects() throws {
        guard !subjects.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO revoked_subject (subject, revoked_at) SELECT * FROM unnest($1::bytea[], $2::bigint[])
            ON CONFLICT (subject) DO NOTHING
            """, [.bytesList(subjects.map(\.subject.bytes)), .integers(subjects.map(\.time))])
        subjects.removeAll(keepingCapacity: true)
    }

    private func writeBarred() throws {
        guard !barred.isEmpty else { return }
        _ = try database.run(
            """
            INSERT INTO barred_key (key, kind, barred_at) SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[])
            ON CONFLICT (key, kind) DO NOTHING
            """,
            [
                .bytesList(barred.map(\.key.bytes)), .texts(barred.map(\.kind.rawValue)),
                .integers(barred.map(\.barredAt)),
            ])
        barred.removeAll(keepingCapacity: true)
    }

    private func writeFederation() throws {
        guard !federation.isEmpty else { return }
        let devices = federation.compactMap { write in
            if case .federation(.insert(let token)) = write { token.device } else { nil }
        }
        let found = try database.run(
            "SELECT hardware_key FROM device WHERE hardware_key = ANY($1)", [.bytesList(devices.map(\.bytes))])
        let known = Set(try (0..<found.rows).map { try found.key($0, 0, "device") })
        // A device may have been registered after the devices had been exported.
        let writes = federation.filter { write in
            if case .federation(.insert(let token)) = write { known.contains(token.device) } else { true }
        }
        _ = try database.run(writes.flatMap(\.databaseStatements))
        federation.removeAll(keepingCapacity: true)
    }

    /// Completes the import. Keys that the store barred before stay barred. Earlier challenges, nonces and tokens are
    /// refused.
    private func finish(at time: Int64) throws {
        try writeDevices()
        try writeCertificates()
        try writeTokens()
        try writeSubjects()
        try writeBarred()
        try writeFederation()
        let state = try DatabaseReader(database).facts(StoreLook()).state
        _ = try database.run(
            SQLWrites.completing(
                state, head, as: StoreIdentity(store: RandomID(), epoch: RandomID()), at: time))
    }
}

/// A database that a command uses directly. Gateways may use it at the same time.
public final class DatabaseAtRest: RegistryAtRest {
    private let database: RegistryDatabase

    /// Connects to a database. Blocks.
    ///
    /// - Parameter isLoading: Whether the command imports. Missing tables are then created, and hidden from others
    ///   until the import has succeeded.
    public init(_ settings: PostgreSQLSettings, isLoading: Bool) throws(StoreOpenError) {
        var settings = settings
        // Only the caller waits, and an import writes much at once.
        settings.limits.answering = .seconds(120)
        settings.limits.statement = .seconds(60)
        do {
            database = try RegistryDatabase(atRest: settings, making: isLoading, isLoading: isLoading)
        } catch let error as StoreOpenError {
            throw error
        } catch is PostgreSQLSchema.Missing {
            throw .missing(path: settings.name)
        } catch {
            throw .failed(path: settings.name, detail: "\(DatabaseFailure(error))")
        }
    }

    public func exportPage(from cursor: ExportCursor, at time: Int64) throws(RegistryLoadError) -> ExportPage {
        do {
            return try database.exportPage(from: cursor, limit: ExportPage.rows, at: time)
        } catch {
            throw RegistryLoadError(error)
        }
    }

    public func otherUsers() throws(RegistryLoadError) -> Int {
        do { return try database.otherUsers() } catch { throw RegistryLoadError(error) }
    }

    public func load(
        at time: Int64, _ fill: (RegistryLoading) throws(RegistryLoadError) -> Void
    ) throws(RegistryLoadError) {
        try DatabaseLoader.load(into: database, at: time, fill)
    }
}

extension RegistryLoadError {
    /// Creates an error of a database.
    fileprivate init(_ error: any Error) {
        self = error as? RegistryLoadError ?? .failed("\(DatabaseFailure(error))")
    }
}
