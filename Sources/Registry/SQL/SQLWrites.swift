internal import Vocabulary

/// The statements of writes.
package enum SQLWrites {
    /// The table with the extensions that a device has shown.
    package enum ShownTable {
        case device
        case counter
    }

    private static func seeing(_ seen: SeenDevices) -> [SQLStatement] {
        guard !seen.devices.isEmpty else { return [] }
        // Two workers may have noted a device, but a statement must not change a row twice.
        let devices = Set(seen.devices.map(\.id)).sorted()
        let rows = devices.indices.map { "($\(2 * $0 + 1), $\(2 * $0 + 2))" }.joined(separator: ", ")
        return [
            SQLStatement(
                """
                INSERT INTO device_seen (device, day) VALUES \(rows)
                ON CONFLICT (device) DO UPDATE SET day = excluded.day WHERE device_seen.day < excluded.day
                """, devices.flatMap { [.device($0), .integer(seen.day)] })
        ]
    }

    static func table(of kind: SingleUseKind) -> String { kind == .nonce ? "used_nonce" : "used_token" }

    /// Returns the statements of a write. A counter value is spent by the store itself.
    package static func statements(for write: StoreWrite, shownIn shownTable: ShownTable) -> [SQLStatement] {
        switch write {
        case .insert(let device): inserting(device, shownTable)
        case .spend: []
        case .restore(let device, let time): restoring(device, at: time)
        case .bind(let key, let device, let time):
            [
                SQLStatement(
                    "INSERT INTO binding (key, device, created_at) VALUES ($1, $2, $3)",
                    [.key(key), .device(device), .integer(time)]
                )
            ]
        case .endBinding(let key, _, let time):
            [
                SQLStatement(
                    "UPDATE binding SET ended_at = $1 WHERE key = $2 AND ended_at IS NULL",
                    [.integer(time), .key(key)]
                )
            ]
        case .expireBinding(let key, _):
            [SQLStatement("UPDATE binding SET ended_at = ends_at WHERE key = $1 AND ended_at IS NULL", [.key(key)])]
        case .scheduleEnd(let key, _, let end): [SQLStatement(schedule("key"), [.integer(end), .key(key)])]
        case .scheduleEnds(let device, let end): [SQLStatement(schedule("device"), [.integer(end), .device(device)])]
        case .revoke(let device, let time):
            [
                SQLStatement(
                    "UPDATE device SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL",
                    [.integer(time), .device(device)]
                )
            ]
        case .approve(let device, let time):
            [SQLStatement("UPDATE device SET approved_at = $1 WHERE id = $2", [.integer(time), .device(device)])]
        case .activate(let device, let time):
            [SQLStatement("UPDATE device SET activated_at = $1 WHERE id = $2", [.integer(time), .device(device)])]
        case .setSubject(let subject, let device):
            [SQLStatement("UPDATE device SET subject = $1 WHERE id = $2", [.bytes(subject.bytes), .device(device)])]
        case .see(let seen): seeing(seen)
        case .use(let item, let kind):
            [
                SQLStatement(
                    "INSERT INTO \(table(of: kind)) (id, expires_at) VALUES ($1, $2)",
                    [.bytes(item.id.bytes), .integer(item.expiresAt)]
                )
            ]
        case .issue(let serial, let key, let notAfter):
            [
                SQLStatement(
                    "INSERT INTO issued_certificate (serial, binding, not_after) VALUES ($1, $2, $3)",
                    [.bytes(serial.bytes), .key(key), .integer(notAfter)]
                )
            ]
        case .barSubject(let subject, let time):
            [
                SQLStatement(
                    """
                    INSERT INTO revoked_subject (subject, revoked_at) VALUES ($1, $2)
                    ON CONFLICT (subject) DO NOTHING
                    """, [.bytes(subject.bytes), .integer(time)]
                )
            ]
        case .barKey(let key, let kind, let time):
            [
                SQLStatement(
                    """
                    INSERT INTO barred_key (key, kind, barred_at) VALUES ($1, $2, $3)
                    ON CONFLICT (key, kind) DO NOTHING
                    """, [.key(key), .text(kind.rawValue), .integer(time)]
                )
            ]
        case .setState(let state):
            [
                SQLStatement(
                    """
                    UPDATE store SET epoch = $1, epoch_number = $2, nonces_removed = $3, tokens_removed = $4,
                        revocation_list = $5
                    """,
                    [
                        .bytes(state.identity.epoch.bytes), .integer(state.epochNumber), .integer(state.noncesRemoved),
                        .integer(state.tokensRemoved), .integer(state.revocationList),
                    ]
                )
            ]
        case .scheduleReceipt(let device, let time):
            [SQLStatement("UPDATE receipt SET next_at = $1 WHERE device = $2", [.integer(time), .device(device)])]
        case .keepPhone(let phone, let device): keeping(phone, of: device)
        case .keepKeyAttestation(let attestation, let device, let time): keeping(attestation, of: device, at: time)
        case .keepEvidence(.assertion, let device, let time):
            [
                SQLStatement(
                    "UPDATE attestation SET attested_at = $1 WHERE device = $2", [.integer(time), .device(device)])
            ]
        case .keepEvidence(.attestation(let version), let device, let time):
            [
                SQLStatement(
                    "UPDATE attestation SET attested_at = $1, os_version = $2 WHERE device = $3",
                    [.integer(time), .text(version?.description), .device(device)])
            ]
        case .keepApp(let app, let device):
            [
                SQLStatement(
                    "UPDATE attestation SET bundle_version = $1, validation_category = $2 WHERE device = $3",
                    values(of: app) + [.device(device)])
            ]
        case .keepSignals(let signals, let device):
            [
                SQLStatement(
                    """
                    INSERT INTO signals (\(SQLColumns.signals)) VALUES ($1, $2, $3, $4, $5)
                    ON CONFLICT (device) DO UPDATE SET claimed_at = excluded.claimed_at,
                        claimed_os_version = excluded.claimed_os_version,
                        claimed_device_secure = excluded.claimed_device_secure, claims = excluded.claims
                    """, [.device(device)] + values(of: signals))
            ]
        case .markListed(let device, let isListed):
            [
                SQLStatement(
                    "UPDATE attestation SET key_listed = $1 WHERE device = $2",
                    [.integer(isListed ? 1 : 0), .device(device)])
            ]
        case .keepReceipt(let device, let content, let riskMetric, let refresh):
            [
                SQLStatement(
                    """
                    UPDATE receipt SET content = coalesce($1, content), risk_metric = $2, created_at = $3, next_at = $4,
                        asked_at = $5, outcome = $6, failures = $7
                    WHERE device = $8
                    """,
                    [.bytes(content), .integer(riskMetric.map(Int64.init))] + values(of: refresh) + [.device(device)]
                )
            ]
        case .removeUsed(let kind, let end, let limit):
            [
                SQLStatement(
                    """
                    DELETE FROM \(table(of: kind)) WHERE id IN (
                        SELECT id FROM \(table(of: kind)) WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)
                    """, [.integer(end), .integer(Int64(limit))]
                )
            ]
        case .federation(let write): federation(write)
        case .removeCertificates(let end, let limit):
            [
                SQLStatement(
                    """
                    DELETE FROM issued_certificate WHERE serial IN (
                        SELECT serial FROM issued_certificate WHERE not_after <= $1 ORDER BY not_after LIMIT $2)
                    """, [.integer(end), .integer(Int64(limit))]
                )
            ]
        }
    }

    /// The condition of tokens from which no other was derived.
    static let isChildless = """
        NOT EXISTS (SELECT 1 FROM federation_token AS child WHERE child.parent = federation_token.id)
        """

    /// Returns the statements of a write to the federation's tables.
    private static func federation(_ write: FederationWrite) -> [SQLStatement] {
        switch write {
        case .insert(let token):
            [
                insertion(
                    "federation_token",
                    "device, id, kind, parent, audience, party, scope, thumbprint, issued_at, expires_at, revoked_at",
                    "(SELECT id FROM device WHERE hardware_key = $1)",
                    [
                        .key(token.device), .bytes(token.id.bytes), .text(token.kind.rawValue),
                        .bytes(token.parent?.bytes), .text(token.audience), .text(token.party), .text(token.scope),
                        .text(token.thumbprint), .integer(token.issuedAt), .integer(token.expiresAt),
                        .integer(token.revokedAt),
                    ])
            ]
        case .retire(let id, let time):
            [
                SQLStatement(
                    "UPDATE federation_token SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL",
                    [.integer(time), .bytes(id.bytes)])
            ]
        case .revoke(let id, let time):
            [
                SQLStatement(
                    """
                    UPDATE federation_token SET revoked_at = $1 WHERE revoked_at IS NULL AND id IN (
                        WITH RECURSIVE tree (id) AS (
                            SELECT id FROM federation_token WHERE id = $2
                            UNION SELECT federation_token.id FROM federation_token
                                JOIN tree ON federation_token.parent = tree.id)
                        SELECT id FROM tree)
                    """, [.integer(time), .bytes(id.bytes)])
            ]
        case .keep(let service):
            [
                SQLStatement(
                    """
                    INSERT INTO federation_service (\(SQLColumns.service))
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                    ON CONFLICT (id) DO UPDATE SET name = excluded.name, url = excluded.url,
                        token_endpoint = excluded.token_endpoint, description_url = excluded.description_url,
                        info = excluded.info, operator = excluded.operator, secret = excluded.secret, joined_at = excluded.joined_at,
                        approved_at = excluded.approved_at, revoked_at = excluded.revoked_at
                    """,
                    [
                        .text(service.id), .text(service.name), .text(service.url), .text(service.tokenEndpoint),
                        .text(service.descriptionURL), .text(service.info), .text(service.operatorName),
                        .bytes(service.secret.bytes), .integer(service.joinedAt), .integer(service.approvedAt),
                        .integer(service.revokedAt),
                    ])
            ]
        case .remove(let end, let limit):
            [
                SQLStatement(
                    """
                    DELETE FROM federation_token WHERE id IN (
                        SELECT id FROM federation_token WHERE expires_at <= $1 AND \(isChildless)
                        ORDER BY expires_at LIMIT $2)
                    """, [.integer(end), .integer(Int64(limit))])
            ]
        }
    }

    private static func schedule(_ column: String) -> String {
        """
        UPDATE binding SET ends_at = $1
        WHERE \(column) = $2 AND ended_at IS NULL AND (ends_at IS NULL OR ends_at > $1)
        """
    }

    private static func restoring(_ device: DeviceID, at time: Int64) -> [SQLStatement] {
        [
            SQLStatement("UPDATE device SET revoked_at = NULL WHERE id = $1", [.device(device)]),
            // The receipt was not examined while the device was revoked, so it is due now. NULL stays, because further
            // attempts are useless.
            SQLStatement(
                "UPDATE receipt SET next_at = $1 WHERE device = $2 AND next_at > $1", [.integer(time), .device(device)]),
            SQLStatement(
                """
                DELETE FROM barred_key
                WHERE kind = 'hardware' AND key = (SELECT hardware_key FROM device WHERE id = $1)
                """, [.device(device)]),
        ]
    }

    private static func values(of refresh: ReceiptRefresh) -> [SQLValue] {
        [
            .integer(refresh.createdAt), .integer(refresh.nextAt), .integer(refresh.askedAt),
            .text(refresh.outcome?.rawValue), .integer(Int64(refresh.failures)),
        ]
    }

    /// Returns the values of the columns `phone`.
    private static func values(of phone: AttestedPhone?) -> [SQLValue] {
        [
            .text(phone?.securityLevel.rawValue), .text(phone?.bootState.rawValue),
            .integer(phone.map { $0.isLocked ? 1 : 0 }), .bytes(phone?.bootKey),
            .integer(phone?.patchLevel.map(Int64.init)), .integer(phone?.vendorPatchLevel.map(Int64.init)),
            .integer(phone?.bootPatchLevel.map(Int64.init)), .integer(phone?.appVersion),
            .text(phone?.integrity?.text), .integer(phone?.integrity?.requestedAt),
        ]
    }

    /// Returns the values of the columns for an app on Apple's systems.
    private static func values(of app: ShownApp) -> [SQLValue] {
        [.text(app.version?.description), .integer(app.distribution.map(Int64.init))]
    }

    /// Returns the values of the columns of `signals` after the device.
    private static func values(of signals: Signals) -> [SQLValue] {
        let claims = signals.claims
        return [
            .integer(signals.claimedAt), .text(claims.system?.description),
            .integer(claims.isDeviceSecure.map { $0 ? 1 : 0 }), .bytes(signals.content),
        ]
    }

    private static func keeping(
        _ attestation: CertificateKeyAttestation, of device: DeviceID, at time: Int64
    ) -> [SQLStatement] {
        guard case .new(let version) = attestation else {
            return [
                SQLStatement(
                    "UPDATE attestation SET certificate_key_attested = $1 WHERE device = $2",
                    [.integer(attestation == .missing ? 0 : 1), .device(device)])
            ]
        }
        return [
            SQLStatement(
                """
                UPDATE attestation SET certificate_key_attested = 1, attested_at = $1, os_version = $2
                WHERE device = $3
                """, [.integer(time), .text(version?.description), .device(device)])
        ]
    }

    private static func keeping(_ phone: AttestedPhone, of device: DeviceID) -> [SQLStatement] {
        let update = SQLStatement(
            """
            UPDATE attestation SET security_level = $1, boot_state = $2, is_locked = $3, boot_key = $4,
                patch_level = $5, vendor_patch_level = $6, boot_patch_level = $7, app_version = $8, integrity = $9,
                integrity_at = $10
            WHERE device = $11
            """, values(of: phone) + [.device(device)])
        return [update]
            + phone.serials.map { serial in
                SQLStatement(
                    """
                    INSERT INTO attested_serial (device, serial) VALUES ($1, $2)
                    ON CONFLICT (device, serial) DO NOTHING
                    """, [.device(device), .text(serial)])
            }
    }

    // MARK: - Devices

    /// Returns statements that insert the rows of a device.
    private static func inserting(_ device: ExportedDevice, _ shownTable: ShownTable) -> [SQLStatement] {
        let identity = device.identity
        let id = "(SELECT id FROM device WHERE hardware_key = $1)"
        let key = SQLValue.key(identity.hardwareKey)
        let shown = SQLValue.integer(Int64(device.shown.rawValue))
        var statements = [
            insertion(
                "device",
                "hardware_key, app, platform, environment, point, registered_at, activated_at, approved_at, "
                    + "revoked_at, subject", "$1",
                [
                    key, .text(identity.app.description), .text(identity.platform.rawValue),
                    .text(identity.environment.rawValue), .bytes(identity.point.bytes), .integer(device.registeredAt),
                    .integer(device.activatedAt), .integer(device.approvedAt), .integer(device.revokedAt),
                    .bytes(device.subject?.bytes),
                ], shownTable == .device ? shown : nil),
            insertion(
                "counter", "device, highest, bits", id,
                [key, .integer(Int64(device.window.highest)), .bytes(device.window.bits)],
                shownTable == .counter ? shown : nil),
        ]
        for binding in device.bindings {
            statements.append(
                insertion(
                    "binding", "device, key, created_at, ended_at, ends_at", id,
                    [
                        key, .key(binding.key), .integer(binding.createdAt), .integer(binding.endedAt),
                        .integer(binding.endsAt),
                    ]))
        }
        if let attestation = device.attestation {
            statements.append(
                insertion(
                    "attestation",
                    "device, \(SQLColumns.attested)", id,
                    [
                        key, .bytes(attestation.digest.bytes), .bytes(attestation.certificateKey?.bytes),
                        .text(attestation.systemVersion?.description),
                    ] + values(of: attestation.app) + [.bytes(attestation.tag)] + values(of: attestation.phone) + [
                        .integer(attestation.attestedAt),
                        .integer(attestation.isCertificateKeyAttested.map { $0 ? 1 : 0 }),
                        .integer(attestation.isKeyListed ? 1 : 0),
                    ]))
            for serial in attestation.phone?.serials ?? [] {
                statements.append(insertion("attested_serial", "device, serial", id, [key, .text(serial)]))
            }
        }
        if let receipt = device.receipt {
            statements.append(
                insertion(
                    "receipt",
                    "device, risk_metric, created_at, next_at, asked_at, outcome, failures, content", id,
                    [key, .integer(receipt.riskMetric.map(Int64.init))] + values(of: receipt.refresh)
                        + [.bytes(receipt.content)]))
        }
        if let signals = device.signals {
            statements.append(insertion("signals", SQLColumns.signals, id, [key] + values(of: signals)))
        }
        return statements
    }

    /// Returns a statement that inserts a row.
    ///
    /// - Parameters:
    ///   - first: The expression for the first column.
    ///   - shown: The value of a last column `shown_extensions`. Nil for none.
    private static func insertion(
        _ table: String, _ columns: String, _ first: String, _ values: [SQLValue], _ shown: SQLValue? = nil
    ) -> SQLStatement {
        let all = values + (shown.map { [$0] } ?? [])
        let parameters = ([first] + all.indices.dropFirst().map { "$\($0 + 1)" }).joined(separator: ", ")
        return SQLStatement(
            "INSERT INTO \(table) (\(columns)\(shown == nil ? "" : ", shown_extensions")) VALUES (\(parameters))", all)
    }

    // MARK: - Imports

    /// Returns the statements that complete an import. Keys that the store barred before stay barred. Earlier challenges,
    /// nonces and tokens are refused.
    ///
    /// - Parameters:
    ///   - state: The state of the store before.
    ///   - head: The head of the export. Nil if it has none.
    ///   - identity: The new identity of the store.
    ///   - time: The current time, in seconds since 1970-01-01T00:00:00Z.
    package static func completing(
        _ state: StoreState, _ head: ExportHead?, as identity: StoreIdentity, at time: Int64
    ) -> [SQLStatement] {
        return [
            SQLStatement(
                """
                UPDATE device SET revoked_at = $1
                WHERE revoked_at IS NULL AND hardware_key IN (SELECT key FROM barred_key WHERE kind = 'hardware')
                """, [.integer(time)]),
            SQLStatement(
                """
                UPDATE binding SET ended_at = $1
                WHERE ended_at IS NULL AND key IN (SELECT key FROM barred_key WHERE kind = 'mtls')
                """, [.integer(time)]),
            SQLStatement(
                "UPDATE store SET id = $1, secret_check = $2, is_loading = 0",
                [.bytes(identity.store.bytes), .bytes(head?.secretCheck?.bytes)]),
            SQLStatement("DELETE FROM used_nonce"),
        ] + statements(for: .setState(state.imported(head, as: identity, at: time)), shownIn: .device)
    }
}
