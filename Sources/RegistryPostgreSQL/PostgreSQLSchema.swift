internal import EventLoop
internal import Registry

/// The tables in PostgreSQL and their migrations. The SQL is limited to what CockroachDB and YugabyteDB understand.
enum PostgreSQLSchema {
    /// The migrations in order. A released migration is never changed.
    private static let migrations = [
        first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth, eleventh,
    ]

    /// Migrates the tables. Gateways that start at the same time wait for each other at the row of the version.
    ///
    /// - Parameters:
    ///   - making: Whether to create missing tables.
    ///   - isLoading: Whether created tables are reserved for an import until it has succeeded.
    /// - Returns: Whether the tables were created.
    /// - Throws: `Missing` if there are no tables and none are to be created. Nothing has changed then.
    static func migrate(_ database: RegistryDatabase, making: Bool, isLoading: Bool) throws -> Bool {
        let isThere = try isThere(database)
        guard isThere || making else { throw Missing() }
        if !isThere { try create(database) }
        var isMade = false
        try database.transaction(.unordered) {
            let row = try database.run("SELECT version FROM schema_version WHERE one = 1 FOR UPDATE")
            guard row.rows == 1 else { throw UnreadableRow(table: "schema_version") }
            let version = try row.integer(0, 0)
            isMade = version == 0
            guard version <= migrations.count else { throw StoreOpenError.newerSchema(path: database.settings.name) }
            guard version < migrations.count else { return }
            for migration in migrations[Int(version)...] {
                for statement in migration { _ = try database.execute(statement) }
            }
            if version == 0 { try insertIdentity(database, isLoading: isLoading) }
            _ = try database.run("UPDATE schema_version SET version = $1", [.integer(Int64(migrations.count))])
        }
        return isMade
    }

    /// There are no tables.
    struct Missing: Error {}

    /// Returns whether there is a complete registry. A schema without a version, or an unfinished creation, does not
    /// count.
    private static func isThere(_ database: RegistryDatabase) throws -> Bool {
        let table = try database.run(
            """
            SELECT 1::bigint FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
            WHERE nspname = 'attestgate' AND relname = 'schema_version'
            """)
        guard table.rows > 0 else { return false }
        return try database.run("SELECT 1::bigint FROM schema_version WHERE version > 0").rows > 0
    }

    /// Creates the schema with the table of the version.
    private static func create(_ database: RegistryDatabase) throws {
        // Creation needs a privilege that the role may lack if its administrator has created the schema.
        let known = try database.run("SELECT 1::bigint FROM pg_namespace WHERE nspname = 'attestgate'")
        // Concurrent creations can conflict in the catalogue in spite of IF NOT EXISTS, and the second one is retried.
        try database.transaction(.unordered) {
            if known.rows == 0 { _ = try database.execute("CREATE SCHEMA IF NOT EXISTS attestgate") }
            _ = try database.execute(
                """
                CREATE TABLE IF NOT EXISTS schema_version (
                    one BIGINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL)
                """)
            _ = try database.execute(
                "INSERT INTO schema_version (one, version) VALUES (1, 0) ON CONFLICT DO NOTHING")
        }
    }

    private static func insertIdentity(_ database: RegistryDatabase, isLoading: Bool) throws {
        _ = try database.run(
            "INSERT INTO store (one, id, epoch, is_loading) VALUES (1, $1, $2, $3)",
            [.bytes(RandomID().bytes), .bytes(RandomID().bytes), .integer(isLoading ? 1 : 0)])
        _ = try database.execute("INSERT INTO feed (one, last) VALUES (1, 0)")
    }

    private static let first = [
        """
        CREATE TABLE store (
            one BIGINT PRIMARY KEY CHECK (one = 1),
            id BYTEA NOT NULL CHECK (length(id) = 16),
            epoch BYTEA NOT NULL CHECK (length(epoch) = 16),
            -- Which database this was when the epoch was drawn: see DatabaseMark.
            mark TEXT,
            -- The latest expiry of a row that was removed: whatever expires by then is refused, whatever the clock says.
            nonces_removed BIGINT NOT NULL DEFAULT 0,
            tokens_removed BIGINT NOT NULL DEFAULT 0,
            -- The number of the latest revocation list.
            revocation_list BIGINT NOT NULL DEFAULT 0
        )
        """,
        // The number of the latest change. With a row instead of a sequence, numbers become visible in order and
        // without gaps.
        "CREATE TABLE feed (one BIGINT PRIMARY KEY CHECK (one = 1), last BIGINT NOT NULL)",
        """
        CREATE TABLE change (
            seq BIGINT PRIMARY KEY,
            device BIGINT NOT NULL,
            -- The binding that has ended, if that is the change.
            ended BYTEA,
            changed_at BIGINT NOT NULL
        )
        """,
        // Devices and bindings are never deleted. The row of a key prevents a second registration or binding.
        """
        CREATE TABLE device (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            hardware_key BYTEA NOT NULL UNIQUE CHECK (length(hardware_key) = 32),
            app TEXT NOT NULL,
            platform TEXT NOT NULL,
            environment TEXT NOT NULL,
            point BYTEA NOT NULL CHECK (length(point) = 65),
            registered_at BIGINT NOT NULL,
            revoked_at BIGINT,
            -- Without an activation a device is pending.
            activated_at BIGINT,
            approved_at BIGINT,
            subject BYTEA CHECK (subject IS NULL OR length(subject) = 32)
        )
        """,
        "CREATE INDEX device_pending ON device (id) WHERE activated_at IS NULL",
        "CREATE INDEX device_subject ON device (subject) WHERE subject IS NOT NULL",
        // Counters have their own table, because they are often updated, in place if the page has room.
        """
        CREATE TABLE counter (
            device BIGINT PRIMARY KEY REFERENCES device (id),
            highest BIGINT NOT NULL CHECK (highest BETWEEN 0 AND 4294967295),
            bits BYTEA NOT NULL CHECK (length(bits) = 128),
            shown_extensions BIGINT NOT NULL CHECK (shown_extensions BETWEEN 0 AND 255),
            -- Grows with every change of whether the device and its bindings are good, in the same transaction: a gateway that
            -- knows the number knows all of that.
            standing BIGINT NOT NULL DEFAULT 0
        ) WITH (fillfactor = 60)
        """,
        """
        CREATE TABLE binding (
            key BYTEA PRIMARY KEY CHECK (length(key) = 32),
            device BIGINT NOT NULL REFERENCES device (id),
            created_at BIGINT NOT NULL,
            ended_at BIGINT,
            -- When it is to end; ended_at is set once that has come.
            ends_at BIGINT
        )
        """,
        "CREATE INDEX binding_device ON binding (device)",
        "CREATE INDEX binding_end ON binding (ends_at) WHERE ends_at IS NOT NULL AND ended_at IS NULL",
        """
        CREATE TABLE attestation (
            device BIGINT PRIMARY KEY REFERENCES device (id),
            digest BYTEA NOT NULL CHECK (length(digest) = 32),
            certificate_key BYTEA CHECK (certificate_key IS NULL OR length(certificate_key) = 32)
        )
        """,
        """
        CREATE TABLE receipt (
            device BIGINT PRIMARY KEY REFERENCES device (id),
            risk_metric BIGINT CHECK (risk_metric IS NULL OR risk_metric BETWEEN 0 AND 4294967295),
            created_at BIGINT,
            next_at BIGINT,
            asked_at BIGINT,
            outcome TEXT,
            failures BIGINT NOT NULL DEFAULT 0 CHECK (failures >= 0),
            content BYTEA NOT NULL CHECK (length(content) <= \(AttestationRecord.receiptLimit))
        )
        """,
        "CREATE INDEX receipt_next ON receipt (next_at) WHERE next_at IS NOT NULL",
        "CREATE INDEX receipt_risk ON receipt (risk_metric) WHERE risk_metric IS NOT NULL",
        "CREATE TABLE used_nonce (id BYTEA PRIMARY KEY CHECK (length(id) = 32), expires_at BIGINT NOT NULL)",
        "CREATE INDEX used_nonce_expiry ON used_nonce (expires_at)",
        "CREATE TABLE used_token (id BYTEA PRIMARY KEY CHECK (length(id) = 32), expires_at BIGINT NOT NULL)",
        "CREATE INDEX used_token_expiry ON used_token (expires_at)",
        "CREATE TABLE revoked_subject (subject BYTEA PRIMARY KEY CHECK (length(subject) = 32), revoked_at BIGINT NOT NULL)",
        """
        CREATE TABLE issued_certificate (
            serial BYTEA PRIMARY KEY CHECK (length(serial) BETWEEN 1 AND 20),
            binding BYTEA NOT NULL REFERENCES binding (key),
            not_after BIGINT NOT NULL
        )
        """,
        "CREATE INDEX issued_certificate_end ON issued_certificate (not_after)",
    ]

    /// Columns and tables for the witness, which is outside the database.
    private static let second = [
        // Keys that are barred without a device or binding, because they come from a revocation journal. Registration
        // and binding check this table.
        """
        CREATE TABLE barred_key (
            key BYTEA NOT NULL CHECK (length(key) = 32),
            -- As what it is barred: a hardware key that was revoked, or an mTLS key whose binding has ended.
            kind TEXT NOT NULL CHECK (kind IN ('hardware', 'mtls')),
            barred_at BIGINT NOT NULL,
            PRIMARY KEY (key, kind)
        )
        """,
        // The number of the epoch.
        "ALTER TABLE store ADD COLUMN epoch_number BIGINT NOT NULL DEFAULT 0",
        // Whether there ever was a revocation journal: 0 or 1.
        "ALTER TABLE store ADD COLUMN is_journaled BIGINT NOT NULL DEFAULT 0",
    ]

    /// The check value of the secret for pseudonyms, and the state of an import.
    private static let third = [
        // Derived from the secret. NULL if no secret was ever used.
        "ALTER TABLE store ADD COLUMN secret_check BYTEA CHECK (secret_check IS NULL OR length(secret_check) = 32)",
        // Whether an import is unfinished, so that others must not use the registry: 0 or 1.
        "ALTER TABLE store ADD COLUMN is_loading BIGINT NOT NULL DEFAULT 0",
    ]

    /// The system version in an attestation. It is unknown for earlier devices.
    private static let fourth = ["ALTER TABLE attestation ADD COLUMN os_version TEXT"]

    /// What Android's attestations say of phones. NULL for other phones.
    private static let fifth = [
        "ALTER TABLE attestation ADD COLUMN tag BYTEA CHECK (tag IS NULL OR length(tag) BETWEEN 16 AND 64)",
        "CREATE UNIQUE INDEX attestation_tag ON attestation (tag)",
        "ALTER TABLE attestation ADD COLUMN security_level TEXT",
        "ALTER TABLE attestation ADD COLUMN boot_state TEXT",
        "ALTER TABLE attestation ADD COLUMN is_locked BIGINT",
        "ALTER TABLE attestation ADD COLUMN boot_key BYTEA",
        // As the attestation has it: year and month, and year, month and day.
        "ALTER TABLE attestation ADD COLUMN patch_level BIGINT",
        "ALTER TABLE attestation ADD COLUMN vendor_patch_level BIGINT",
        "ALTER TABLE attestation ADD COLUMN boot_patch_level BIGINT",
        "ALTER TABLE attestation ADD COLUMN app_version BIGINT",
        // What Google Play said: verdicts with spaces between them, and when it was asked.
        "ALTER TABLE attestation ADD COLUMN integrity TEXT",
        "ALTER TABLE attestation ADD COLUMN integrity_at BIGINT",
        // The certificates that vouch for a device's keys, by which revoked ones are found.
        """
        CREATE TABLE attested_serial (
            device BIGINT NOT NULL REFERENCES device (id),
            -- In lower-case hexadecimal without leading zeros.
            serial TEXT NOT NULL CHECK (length(serial) BETWEEN 1 AND 40),
            PRIMARY KEY (device, serial)
        )
        """,
        "CREATE INDEX attested_serial_serial ON attested_serial (serial)",
    ]

    /// Whether a certificate on which a phone's keys rest is listed as revoked.
    private static let sixth = [
        "ALTER TABLE attestation ADD COLUMN key_listed BIGINT NOT NULL DEFAULT 0 CHECK (key_listed IN (0, 1))",
        "CREATE INDEX attestation_listed ON attestation (device) WHERE key_listed = 1",
    ]

    /// The day on which a device was last seen, in days since 1970-01-01 UTC. It has its own table, so that writing it
    /// never waits for a counter.
    private static let seventh = [
        "CREATE TABLE device_seen (device BIGINT PRIMARY KEY REFERENCES device (id), day BIGINT NOT NULL)",
        // By which a later certificate of a key is found.
        "CREATE INDEX issued_certificate_binding ON issued_certificate (binding)",
    ]

    /// The index by which devices that were attested for development are counted.
    private static let eighth = [
        "CREATE INDEX device_development ON device (app) WHERE environment = 'development' AND revoked_at IS NULL"
    ]

    /// What is known of a device besides. NULL is right for existing devices, and for those of gateways that do not know
    /// the columns: their attestation is that of the registration, and the rest is unknown.
    private static let ninth = [
        // When a certificate's key was last attested. NULL if the attestation of the registration is the newest.
        "ALTER TABLE attestation ADD COLUMN attested_at BIGINT",
        // Of an app on Apple's systems, as shown last. NULL if never.
        "ALTER TABLE attestation ADD COLUMN bundle_version TEXT",
        "ALTER TABLE attestation ADD COLUMN validation_category BIGINT",
        // Whether the newest certificate's key of an Android phone is attested: 0 or 1. NULL if unknown.
        "ALTER TABLE attestation ADD COLUMN certificate_key_attested BIGINT",
    ]

    /// What apps say of their phones. It has its own table, because devices without an attestation may have it, too.
    private static let tenth = [
        """
        CREATE TABLE signals (
            device BIGINT PRIMARY KEY REFERENCES device (id),
            claimed_at BIGINT NOT NULL,
            -- Repeats what policies use of the claims. NULL if there is nothing.
            claimed_os_version TEXT,
            claimed_device_secure BIGINT,
            -- An object in JSON.
            claims BYTEA NOT NULL CHECK (length(claims) <= \(Signals.sizeLimit))
        )
        """
    ]

    /// The federation's tokens and services.
    private static let eleventh = [
        """
        CREATE TABLE federation_token (
            -- SHA-256 of the token.
            id BYTEA PRIMARY KEY CHECK (length(id) = 32),
            kind TEXT NOT NULL CHECK (kind IN ('instance', 'code', 'service', 'app')),
            -- The token from which it was derived. Its row is not removed before this one.
            parent BYTEA CHECK (parent IS NULL OR length(parent) = 32),
            device BIGINT NOT NULL REFERENCES device (id),
            audience TEXT NOT NULL,
            party TEXT,
            scope TEXT NOT NULL,
            thumbprint TEXT,
            issued_at BIGINT NOT NULL,
            expires_at BIGINT NOT NULL,
            revoked_at BIGINT
        )
        """,
        "CREATE INDEX federation_token_device ON federation_token (device)",
        "CREATE INDEX federation_token_parent ON federation_token (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX federation_token_expiry ON federation_token (expires_at)",
        """
        CREATE TABLE federation_service (
            id TEXT PRIMARY KEY CHECK (length(id) = 36),
            name TEXT NOT NULL,
            url TEXT NOT NULL UNIQUE,
            token_endpoint TEXT NOT NULL,
            description_url TEXT NOT NULL,
            info TEXT,
            operator TEXT NOT NULL,
            -- SHA-256 of its own token.
            secret BYTEA NOT NULL UNIQUE CHECK (length(secret) = 32),
            joined_at BIGINT NOT NULL,
            approved_at BIGINT,
            revoked_at BIGINT
        )
        """,
    ]
}
