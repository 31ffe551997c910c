package import Vocabulary

/// The reading side of a store in SQL.
package protocol SQLReader {
    associatedtype Row: SQLRow

    /// Runs queries on one state of the store, in one round trip if it can.
    func rows(_ statements: [SQLStatement]) throws -> [[Row]]

    /// Returns queries for the rows whose key is one of these.
    ///
    /// - Parameter sql: A query that ends with the column of the key.
    static func statements(_ sql: String, anyOf keys: [KeyID]) -> [SQLStatement]

    /// The clause that keeps read rows from changing until the transaction ends. Empty if nothing else changes them.
    static var locking: String { get }

    /// Returns the spent values of a device in memory, which may be ahead of its row. Nil if they are not in memory.
    func window(of device: DeviceID) -> CounterWindow?
}

extension SQLReader {
    // MARK: - Facts

    /// Looks up the facts for a rule.
    package func facts(_ look: StoreLook) throws -> StoreFacts {
        let plan = plan(for: look)
        let answers = try rows(plan.map(\.statement))
        guard let row = answers[0].first else { throw UnreadableRow(table: "store") }
        var facts = StoreFacts(state: try row.storeState())
        for (step, rows) in zip(plan, answers) { try step.read(rows, &facts) }
        if let device = look.device {
            facts.device = try deviceDetails(answers[1..<(1 + Self.details(of: device).count)])
            if look.counter, let id = facts.device?.device.id, let known = window(of: id) { facts.window = known }
        }
        return facts
    }

    private typealias Step = (statement: SQLStatement, read: ([Row], inout StoreFacts) throws -> Void)

    /// Returns the queries with the readers of their results. The first query is for the state of the store, and those
    /// for the device follow.
    private func plan(for look: StoreLook) -> [Step] {
        var plan: [Step] = []
        func add(
            _ sql: String, _ arguments: [SQLValue] = [], _ read: @escaping ([Row], inout StoreFacts) throws -> Void
        ) {
            plan.append((SQLStatement(sql, arguments), read))
        }
        add(
            "SELECT id, epoch, epoch_number, nonces_removed, tokens_removed, revocation_list FROM store"
        ) { _, _ in }
        if let device = look.device {
            plan += Self.steps(Self.details(of: device)) { _, _ in }
            if look.counter {
                let (number, argument) = Self.number(of: device)
                add("SELECT highest, bits FROM counter WHERE device = \(number) \(Self.locking)", [argument]) {
                    $1.window = try $0.first?.window(0, 1)
                }
            }
        }
        if let key = look.bindingKey {
            add(
                """
                SELECT key FROM binding WHERE key = $1
                UNION ALL SELECT key FROM barred_key WHERE key = $1 AND kind = 'mtls'
                """, [.key(key)]
            ) { $1.isBindingKeyTaken = !$0.isEmpty }
        }
        if let key = look.hardwareKey {
            add("SELECT key FROM barred_key WHERE key = $1 AND kind = 'hardware'", [.key(key)]) {
                $1.isHardwareKeyBarred = !$0.isEmpty
            }
        }
        if let tag = look.tag {
            add("SELECT device FROM attestation WHERE tag = $1", [.bytes(tag)]) { $1.isTagTaken = !$0.isEmpty }
        }
        if let app = look.developmentDevices {
            // Literally, so that the index of these devices is used.
            add(
                """
                SELECT count(*) FROM device
                WHERE app = $1 AND environment = 'development' AND revoked_at IS NULL
                """, [.text(app.description)]
            ) { $1.developmentDevices = Int(try $0.first?.integer(0) ?? 0) }
        }
        if let nonce = look.nonce {
            add("SELECT id FROM used_nonce WHERE id = $1", [.bytes(nonce.id.bytes)]) { $1.isNonceUsed = !$0.isEmpty }
        }
        if let token = look.token {
            add("SELECT id FROM used_token WHERE id = $1", [.bytes(token.id.bytes)]) { $1.isTokenUsed = !$0.isEmpty }
        }
        if let serial = look.serial {
            add("SELECT serial FROM issued_certificate WHERE serial = $1", [.bytes(serial.bytes)]) {
                $1.isSerialIssued = !$0.isEmpty
            }
        }
        if look.certificateEnd, let device = look.device {
            let (number, argument) = Self.number(of: device)
            add(
                """
                SELECT max(not_after) FROM issued_certificate
                WHERE binding IN (SELECT key FROM binding WHERE device = \(number))
                """, [argument]
            ) { $1.certificateEnd = try $0.first?.optionalInteger(0) }
        }
        for subject in look.subjects {
            add("SELECT subject FROM revoked_subject WHERE subject = $1", [.bytes(subject.bytes)]) {
                if !$0.isEmpty { $1.barredSubjects.insert(subject) }
            }
            add("SELECT id FROM device WHERE subject = $1 AND revoked_at IS NULL ORDER BY id", [.bytes(subject.bytes)])
            { $1.devicesOfSubject[subject] = try $0.map { try $0.device(0, "device") } }
        }
        if let due = look.due {
            plan.append((Self.statement(for: due), { $1.due = try $0.map { try $0.dueRow(due.rows) } }))
        }
        if let listed = look.listed {
            plan.append((Self.statement(for: listed), { $1.listed = try Self.listed($0) }))
        }
        plan += Self.federationPlan(for: look)
        return plan + Self.plan(hardwareKeys: look.hardwareKeys) + Self.plan(bindingKeys: look.bindingKeys)
    }

    /// Returns the queries for tokens and services of the federation.
    private static func federationPlan(for look: StoreLook) -> [Step] {
        var plan: [Step] = []
        func add(
            _ sql: String, _ arguments: [SQLValue], _ read: @escaping ([Row], inout StoreFacts) throws -> Void
        ) {
            plan.append((SQLStatement(sql, arguments), read))
        }
        let tokens = "SELECT \(SQLColumns.token) FROM \(SQLColumns.tokenTables)"
        for id in look.federationTokens {
            add("\(tokens) WHERE federation_token.id = $1", [.bytes(id.bytes)]) {
                $1.federationTokens[id] = try $0.first?.federationToken()
            }
            add(
                "\(tokens) WHERE federation_token.id = (SELECT parent FROM federation_token WHERE id = $1)",
                [.bytes(id.bytes)]
            ) { $1.parents[id] = try $0.first?.federationToken().token }
        }
        if let time = look.tokensOfDevice, let device = look.device {
            let (number, argument) = number(of: device)
            add(
                "SELECT count(*) FROM federation_token WHERE federation_token.device = \(number) AND expires_at > $2",
                [argument, .integer(time)]
            ) { $1.liveTokens = Int(try $0.first?.integer(0) ?? 0) }
            add(
                """
                \(tokens) WHERE federation_token.device = \(number) AND kind = 'instance' AND federation_token.revoked_at IS NULL
                    AND expires_at > $2
                ORDER BY issued_at DESC, federation_token.id LIMIT 1
                """, [argument, .integer(time)]
            ) { $1.newestInstance = try $0.first?.federationToken() }
        }
        if let service = look.service {
            let statement = statement(for: service)
            add(statement.sql, statement.arguments) { $1.service = try $0.first?.federationService() }
        }
        if let url = look.serviceURL {
            add("SELECT id FROM federation_service WHERE url = $1", [.text(url)]) {
                $1.serviceWithURL = try $0.first?.optionalText(0)
            }
            add("SELECT count(*) FROM federation_service", []) { $1.services = Int(try $0.first?.integer(0) ?? 0) }
        }
        return plan
    }

    private static func statement(for service: ServiceSelector) -> SQLStatement {
        let (column, value): (String, SQLValue) =
            switch service {
            case .id(let id): ("id", .text(id))
            case .url(let url): ("url", .text(url))
            case .secret(let secret): ("secret", .bytes(secret.bytes))
            }
        return SQLStatement("SELECT \(SQLColumns.service) FROM federation_service WHERE \(column) = $1", [value])
    }

    private static func plan(hardwareKeys keys: [KeyID]) -> [Step] {
        let devices = statements("SELECT hardware_key, id, revoked_at FROM device WHERE hardware_key", anyOf: keys)
        let barred = statements("SELECT key FROM barred_key WHERE kind = 'hardware' AND key", anyOf: keys)
        return steps(devices) { rows, facts in
            for row in rows {
                let isRevoked = try row.optionalInteger(2) != nil
                facts.devices[try row.key(0, "device")] = (try row.device(1, "device"), isRevoked)
            }
        }
            + steps(barred) { rows, facts in
                for row in rows { facts.barredKeys[.hardware, default: []].insert(try row.key(0, "barred_key")) }
            }
    }

    private static func plan(bindingKeys keys: [KeyID]) -> [Step] {
        let bindings = statements("SELECT \(SQLColumns.binding) FROM binding WHERE key", anyOf: keys)
        let barred = statements("SELECT key FROM barred_key WHERE kind = 'mtls' AND key", anyOf: keys)
        return steps(bindings) { rows, facts in
            for row in rows { facts.bindings[try row.key(0, "binding")] = try row.binding() }
        }
            + steps(barred) { rows, facts in
                for row in rows { facts.barredKeys[.mTLS, default: []].insert(try row.key(0, "barred_key")) }
            }
    }

    private static func steps(
        _ statements: [SQLStatement], _ read: @escaping ([Row], inout StoreFacts) throws -> Void
    ) -> [Step] {
        statements.map { ($0, read) }
    }

    private static func statement(for listed: StoreLook.Listed) -> SQLStatement {
        switch listed {
        case .unmarked(let serials, let after, let limit):
            // SQLite numbers parameters in the order in which they occur.
            let list = serials.indices.map { "$\($0 + 2)" }.joined(separator: ", ")
            return SQLStatement(
                """
                SELECT DISTINCT attested_serial.device, NULL FROM attested_serial
                JOIN attestation ON attestation.device = attested_serial.device
                WHERE key_listed = 0 AND attested_serial.device > $1 AND serial IN (\(list.isEmpty ? "NULL" : list))
                ORDER BY attested_serial.device LIMIT $\(serials.count + 2)
                """,
                [.integer(after?.number ?? 0)] + serials.map { .text($0) } + [.integer(Int64(limit))])
        case .marked(let after, let limit):
            return SQLStatement(
                """
                SELECT page.device, serial FROM (
                    SELECT device FROM attestation WHERE key_listed = 1 AND device > $1 ORDER BY device LIMIT $2) AS page
                LEFT JOIN attested_serial ON attested_serial.device = page.device ORDER BY page.device
                """, [.integer(after?.number ?? 0), .integer(Int64(limit))])
        }
    }

    /// Reads devices in order, each with the serial numbers of its rows.
    private static func listed(_ rows: [Row]) throws -> [(device: DeviceID, serials: [String])] {
        var listed: [(device: DeviceID, serials: [String])] = []
        for row in rows {
            let device = try row.device(0, "attestation")
            if listed.last?.device != device { listed.append((device, [])) }
            if let serial = try row.optionalText(1) { listed[listed.count - 1].serials.append(serial) }
        }
        return listed
    }

    private static func statement(for due: StoreLook.Due) -> SQLStatement {
        let sql =
            switch due.rows {
            case .receipts:
                """
                SELECT next_at, receipt.device, revoked_at FROM receipt JOIN device ON device.id = receipt.device
                WHERE next_at <= $1 ORDER BY next_at, receipt.device LIMIT $2
                """
            case .bindings:
                """
                SELECT ends_at, device, key FROM binding
                WHERE ends_at IS NOT NULL AND ended_at IS NULL AND ends_at <= $1 ORDER BY ends_at LIMIT $2
                """
            case .used(let kind):
                "SELECT expires_at FROM \(SQLWrites.table(of: kind)) WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2"
            case .certificates:
                "SELECT not_after FROM issued_certificate WHERE not_after <= $1 ORDER BY not_after LIMIT $2"
            case .federationTokens:
                """
                SELECT expires_at FROM federation_token WHERE expires_at <= $1 AND \(SQLWrites.isChildless)
                ORDER BY expires_at LIMIT $2
                """
            }
        return SQLStatement(sql, [.integer(due.time), .integer(Int64(due.limit))])
    }

    // MARK: - Devices

    /// Returns the queries for the details of a device, which `deviceDetails` reads.
    package static func details(of device: DeviceSelector) -> [SQLStatement] {
        let (number, argument) = number(of: device)
        return [
            "SELECT \(SQLColumns.listed) FROM \(SQLColumns.listedTables) WHERE device.id = \(number)",
            "SELECT \(SQLColumns.binding) FROM binding WHERE device = \(number) ORDER BY created_at, key",
            """
            SELECT \(SQLColumns.attestation) FROM \(SQLColumns.attestationTables)
            WHERE attestation.device = \(number)
            """,
            "SELECT \(SQLColumns.receipt) FROM receipt WHERE device = \(number)",
            "SELECT \(SQLColumns.serial) FROM attested_serial WHERE device = \(number)",
            "SELECT claimed_at, claims FROM signals WHERE device = \(number)",
        ].map { SQLStatement($0, [argument]) }
    }

    /// Returns an expression for the number of a device.
    private static func number(of device: DeviceSelector) -> (sql: String, argument: SQLValue) {
        switch device {
        case .id(let id): ("$1", .device(id))
        case .hardwareKey(let key): ("(SELECT id FROM device WHERE hardware_key = $1)", .key(key))
        case .tag(let tag): ("(SELECT device FROM attestation WHERE tag = $1)", .bytes(tag))
        case .binding(let key): ("(SELECT device FROM binding WHERE key = $1)", .key(key))
        }
    }

    /// Reads the results of `details(of:)`.
    ///
    /// - Returns: nil if there is no such device.
    package func deviceDetails(_ answers: ArraySlice<[Row]>) throws -> DeviceDetails? {
        let answers = Array(answers)
        guard let row = answers[0].first else { return nil }
        let serials = try answers[4].map { try $0.attestedSerial().serial }
        return DeviceDetails(
            device: try device(row), bindings: try answers[1].map { try $0.binding() },
            attestation: try answers[2].first.flatMap {
                try $0.attestationRecord(0, serials, receipt: $0.optionalBytes(20))
            },
            refresh: try answers[3].first?.receiptRefresh(), signals: try answers[5].first?.signals())
    }

    /// Returns the details of devices that exist.
    package func existing(_ devices: [DeviceSelector]) throws -> [DeviceDetails] {
        try existing(try rows(devices.flatMap { Self.details(of: $0) }), devices.count)
    }

    /// Reads the results of `details(of:)` for several devices that exist.
    package func existing(_ answers: [[Row]], _ count: Int) throws -> [DeviceDetails] {
        let each = count == 0 ? 0 : answers.count / count
        return try (0..<count).map { index in
            guard let details = try deviceDetails(answers[(index * each)..<((index + 1) * each)]) else {
                throw StoreError.deviceUnknown
            }
            return details
        }
    }

    private func device(_ row: Row) throws -> Device {
        try row.device(highest: window(of: try row.device(0, "device"))?.highest, isListed: true)
    }

    // MARK: - Operations that only read

    /// Performs an operation without a rule, except an export.
    ///
    /// - Parameter time: The current time, in seconds since 1970-01-01T00:00:00Z.
    package func reply(to command: RegistryCommand, at time: Int64) throws -> RegistryReply {
        switch command {
        case .list(let after, let limit): return .devices(try devices("", after, limit))
        case .listPending(let after, let limit):
            return .devices(try devices("AND activated_at IS NULL AND revoked_at IS NULL", after, limit))
        case .search(let search, let after, let limit): return .found(try found(search, after, limit))
        case .show(let selector):
            if let details = try deviceDetails(rows(Self.details(of: selector))[...]) { return .device(details) }
            if case .binding = selector { throw StoreError.bindingUnknown }
            throw StoreError.deviceUnknown
        case .listSubject(let subject, let limit):
            return .devices(
                try rows(
                    """
                    SELECT \(SQLColumns.listed) FROM \(SQLColumns.listedTables)
                    WHERE device.subject = $1 ORDER BY device.id DESC LIMIT $2
                    """, [.bytes(subject.bytes), .integer(Int64(max(0, limit)))]
                ).map { try device($0) })
        case .count(let after, let limit): return .count(try count(after, limit))
        case .listRevokedCertificates(let after, let limit):
            return .revokedCertificates(try revokedCertificates(after, limit, at: time))
        case .listExpiring(let place, let end): return .expiring(try expiring(after: place, until: end))
        case .receiptFigures(let ceilings, let due): return .receiptFigures(try receiptFigures(ceilings, at: due))
        case .findToken(let id):
            return .foundToken(
                try rows(
                    "SELECT \(SQLColumns.token) FROM \(SQLColumns.tokenTables) WHERE federation_token.id = $1",
                    [.bytes(id.bytes)]
                ).first?.federationToken())
        case .listTokens(let device):
            return .tokens(
                try rows(
                    """
                    SELECT \(SQLColumns.token) FROM \(SQLColumns.tokenTables)
                    WHERE device.id = $1 AND expires_at > $2 ORDER BY issued_at DESC, federation_token.id LIMIT $3
                    """, [.device(device), .integer(time), .integer(Int64(FederationToken.limitPerDevice))]
                ).map { try $0.federationToken().token })
        case .listUsedServices(let device): return .services(try usedServices(of: device))
        case .findService(let selector):
            let service = try rows([Self.statement(for: selector)])[0].first?.federationService()
            return .service(service.map { .service($0) } ?? .unknown)
        case .listServices(let after, let limit):
            return .services(
                try rows(
                    "SELECT \(SQLColumns.service) FROM federation_service WHERE id > $1 ORDER BY id LIMIT $2",
                    [.text(after), .integer(Int64(max(0, limit)))]
                ).map { try $0.federationService() })
        default: preconditionFailure("an operation with a rule, or an export")
        }
    }

    private func usedServices(of device: DeviceID) throws -> [FederationService] {
        try rows(
            """
            SELECT \(SQLColumns.service) FROM federation_service WHERE approved_at IS NOT NULL AND url IN (
                SELECT audience FROM federation_token JOIN device ON device.id = federation_token.device
                WHERE kind = 'service' AND (
                    device.id = $1 OR device.subject = (SELECT subject FROM device WHERE id = $1)))
            ORDER BY id
            """, [.device(device)]
        ).map { try $0.federationService() }
    }

    private func devices(_ condition: String, _ after: DeviceID?, _ limit: Int) throws -> [Device] {
        try rows(
            """
            SELECT \(SQLColumns.listed) FROM \(SQLColumns.listedTables)
            WHERE device.id > $1 \(condition) ORDER BY device.id LIMIT $2
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))]
        ).map { try device($0) }
    }

    /// Searches a page of the devices. The number of examined ones is limited, because no index has all conditions.
    private func found(_ search: DeviceSearch, _ after: DeviceID?, _ limit: Int) throws -> FoundDevices {
        let page: [SQLValue] = [.integer(after?.number ?? 0), .integer(Int64(DeviceSearch.examined))]
        let examined = "(SELECT id FROM device WHERE id > $1 ORDER BY id LIMIT $2) AS examined"
        let (conditions, values) = Self.conditions(of: search, first: 3)
        let answers = try rows([
            SQLStatement("SELECT count(*), max(examined.id) FROM \(examined)", page),
            SQLStatement(
                """
                SELECT \(SQLColumns.listed) FROM \(examined) JOIN device ON device.id = examined.id
                JOIN counter ON counter.device = device.id LEFT JOIN device_seen ON device_seen.device = device.id
                WHERE \(conditions) ORDER BY device.id LIMIT $\(values.count + 3)
                """, page + values + [.integer(Int64(max(0, limit)))]),
        ])
        guard let count = answers[0].first else { throw UnreadableRow(table: "device") }
        return FoundDevices(
            try answers[1].map { try device($0) }, limit: limit, examined: Int(try count.integer(0)),
            last: try count.optionalInteger(1).flatMap(DeviceID.init))
    }

    /// Returns the conditions of a search, with parameters from a number on.
    private static func conditions(of search: DeviceSearch, first: Int) -> (sql: String, values: [SQLValue]) {
        var conditions = ["1 = 1"]
        var values: [SQLValue] = []
        func require(_ condition: (String) -> String, _ value: SQLValue?) {
            guard let value else { return }
            conditions.append(condition("$\(first + values.count)"))
            values.append(value)
        }
        require({ "app = \($0)" }, search.app.map { .text($0.description) })
        require({ "platform = \($0)" }, search.platform.map { .text($0.rawValue) })
        require({ "subject = \($0)" }, search.subject.map { .bytes($0.bytes) })
        require({ "(day IS NULL OR day < \($0))" }, search.seenBefore.map { .integer($0) })
        require({ "day >= \($0)" }, search.seenSince.map { .integer($0) })
        switch search.state {
        case .pending: conditions.append("revoked_at IS NULL AND activated_at IS NULL")
        case .active: conditions.append("revoked_at IS NULL AND activated_at IS NOT NULL")
        case .revoked: conditions.append("revoked_at IS NOT NULL")
        case nil: break
        }
        return (conditions.joined(separator: " AND "), values)
    }

    private func count(_ after: DeviceID?, _ limit: Int) throws -> DeviceCount {
        let row = try rows(
            """
            SELECT count(*), coalesce(sum(CASE WHEN revoked_at IS NOT NULL THEN 1 ELSE 0 END), 0),
                coalesce(sum(CASE WHEN revoked_at IS NULL AND activated_at IS NULL THEN 1 ELSE 0 END), 0), max(id)
            FROM (SELECT id, revoked_at, activated_at FROM device WHERE id > $1 ORDER BY id LIMIT $2) AS looked_at
            """, [.integer(after?.number ?? 0), .integer(Int64(max(0, limit)))]
        ).first
        guard let row else { throw UnreadableRow(table: "device") }
        return DeviceCount(
            all: Int(try row.integer(0)), revoked: Int(try row.integer(1)), pending: Int(try row.integer(2)),
            last: try row.optionalInteger(3).flatMap(DeviceID.init), limit: limit)
    }

    /// Returns the revoked ones in a page of certificates. A certificate is revoked with its device or by the end of
    /// its binding.
    private func revokedCertificates(
        _ after: CertificateSerial?, _ limit: Int, at time: Int64
    ) throws -> RevokedCertificatePage {
        let certificates = try rows(
            """
            SELECT serial, not_after, revoked_at, ended_at, ends_at
            FROM (SELECT * FROM issued_certificate WHERE serial > $1 ORDER BY serial LIMIT $2) AS page
            JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
            ORDER BY serial
            """, [.bytes(after?.bytes ?? []), .integer(Int64(max(0, limit)))]
        ).map { try $0.certificateRecord() }
        return RevokedCertificatePage(certificates, limit: limit, at: time)
    }

    private func expiring(after place: ExpiringCertificates.Place, until end: Int64) throws -> ExpiringCertificates {
        let rows = try rows(
            """
            SELECT page.not_after, page.serial, CAST(CASE WHEN ended_at IS NULL AND revoked_at IS NULL AND NOT EXISTS (
                SELECT 1 FROM issued_certificate AS later
                WHERE later.binding = page.binding AND later.not_after > page.not_after) THEN 1 ELSE 0 END AS BIGINT)
            FROM (
                SELECT serial, binding, not_after FROM issued_certificate
                WHERE (not_after, serial) > ($1, $2) AND not_after <= $3 ORDER BY not_after, serial LIMIT $4) AS page
            JOIN binding ON binding.key = page.binding JOIN device ON device.id = binding.device
            ORDER BY page.not_after, page.serial
            """,
            [
                .integer(place.notAfter), .bytes(place.serial?.bytes ?? []), .integer(end),
                .integer(Int64(ExpiringCertificates.examined)),
            ])
        var next: ExpiringCertificates.Place?
        if rows.count == ExpiringCertificates.examined, let last = rows.last {
            guard let serial = CertificateSerial(try last.bytes(1)) else {
                throw UnreadableRow(table: "issued_certificate")
            }
            next = ExpiringCertificates.Place(serial, notAfter: try last.integer(0))
        }
        return ExpiringCertificates(
            ends: try rows.filter { try $0.integer(2) == 1 }.map { try $0.integer(0) }, next: next)
    }

    private func receiptFigures(
        _ ceilings: [(app: AppID, highest: UInt32)], at time: Int64
    ) throws -> ReceiptFigures {
        let counts = ceilings.map { app, highest in
            // The inner limit bounds the work if other apps have many devices.
            SQLStatement(
                """
                SELECT count(*) FROM (SELECT device FROM receipt WHERE risk_metric > $1 LIMIT $2) AS risky
                JOIN device ON device.id = risky.device WHERE app = $3 AND revoked_at IS NULL
                """,
                [.integer(Int64(highest)), .integer(Int64(ReceiptFigures.countLimit)), .text(app.description)])
        }
        let oldest = SQLStatement("SELECT min(next_at) FROM receipt WHERE next_at <= $1", [.integer(time)])
        let numbers = try rows(counts + [oldest]).map { try $0.first?.optionalInteger(0) }
        return ReceiptFigures(
            aboveCeiling: numbers.dropLast().map { Int(($0 ?? nil) ?? 0) }, oldestDue: numbers.last.flatMap { $0 })
    }

    private func rows(_ sql: String, _ arguments: [SQLValue]) throws -> [Row] {
        try rows([SQLStatement(sql, arguments)])[0]
    }

    // MARK: - Exports

    /// Reads rows of a section after the devices.
    ///
    /// - Returns: The records and the start of the next page.
    package func exportRows(
        after cursor: ExportCursor, limit: Int
    ) throws -> (records: [ExportRecord], next: ExportCursor?) {
        let (sql, after): (String, [SQLValue]) =
            switch cursor.section {
            case .devices: preconditionFailure("devices are read by another query")
            case .certificates:
                (
                    "SELECT serial, binding, not_after FROM issued_certificate WHERE serial > $1 ORDER BY serial LIMIT $2",
                    [.bytes(cursor.after)]
                )
            case .usedTokens:
                ("SELECT id, expires_at FROM used_token WHERE id > $1 ORDER BY id LIMIT $2", [.bytes(cursor.after)])
            case .revokedSubjects:
                (
                    "SELECT subject, revoked_at FROM revoked_subject WHERE subject > $1 ORDER BY subject LIMIT $2",
                    [.bytes(cursor.after)]
                )
            case .services:
                (
                    "SELECT \(SQLColumns.service) FROM federation_service WHERE id > $1 ORDER BY id LIMIT $2",
                    [.text(String(decoding: cursor.after, as: UTF8.self))]
                )
            case .federationTokens:
                (
                    """
                    SELECT \(SQLColumns.token) FROM \(SQLColumns.tokenTables)
                    WHERE federation_token.id > $1 ORDER BY federation_token.id LIMIT $2
                    """, [.bytes(cursor.after)]
                )
            case .barredKeys:
                (
                    """
                    SELECT key, kind, barred_at FROM barred_key WHERE (key, kind) > ($1, $2)
                    ORDER BY key, kind LIMIT $3
                    """, [.bytes(cursor.barred.key), .text(cursor.barred.kind)]
                )
            }
        let rows = try rows(sql, after + [.integer(Int64(limit))])
        let records = try rows.map { try $0.exportRecord(cursor.section) }
        guard rows.count == limit, let last = rows.last else {
            return (records, ExportCursor(behind: cursor.section))
        }
        var place = cursor.section == .services ? [] : try last.bytes(0)
        if case .barredKey(let barred)? = records.last { place = barred.place }
        if case .service(let service)? = records.last { place = Array(service.id.utf8) }
        return (records, ExportCursor(section: cursor.section, after: place))
    }

    /// Reads the head of an export.
    ///
    /// - Parameter time: The time of the export, in seconds since 1970-01-01T00:00:00Z.
    package func exportHead(at time: Int64) throws -> ExportHead {
        let row = try rows(
            """
            SELECT id, revocation_list, tokens_removed, secret_check,
                (SELECT count(*) FROM federation_service), (SELECT count(*) FROM federation_token) FROM store
            """, []
        ).first
        guard let row, let id = RandomID(try row.bytes(0)) else { throw UnreadableRow(table: "store") }
        return ExportHead(
            time: time, store: id, revocationList: try row.integer(1), tokensRemoved: try row.integer(2),
            secretCheck: try row.optionalBytes(3).flatMap(Fingerprint.init),
            hasFederation: try row.integer(4) + row.integer(5) > 0)
    }
}
