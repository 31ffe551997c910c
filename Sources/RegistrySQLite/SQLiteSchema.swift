internal import GRDB
internal import Registry

/// The tables in SQLite and their migrations.
enum SQLiteSchema {
    /// The `PRAGMA application_id` of registry files: "AGRG".
    static let applicationID: Int32 = 0x4147_5247

    /// The `PRAGMA user_version` of a file that is created for an import, until a later migration adds the column for
    /// it. Each migration is its own transaction, so a command may be killed between two.
    private static let beingMade: Int32 = 1

    static var migrator: DatabaseMigrator { migrator(isLoading: false) }

    /// Returns the migrations.
    ///
    /// - Parameter isLoading: Whether a new file is created for an import.
    static func migrator(isLoading: Bool) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { database in
            try createFirst(database)
            if isLoading { try database.execute(sql: "PRAGMA user_version = \(beingMade)") }
        }
        migrator.registerMigration("v2", migrate: addEnrolment)
        migrator.registerMigration("v3", migrate: addIssuedCertificates)
        migrator.registerMigration("v4", migrate: addShownExtensions)
        migrator.registerMigration("v5", migrate: setReceiptsApart)
        migrator.registerMigration("v6", migrate: addWitness)
        migrator.registerMigration("v7", migrate: addSecretCheck)
        migrator.registerMigration("v8", migrate: addSystemVersion)
        migrator.registerMigration("v9", migrate: addPhones)
        migrator.registerMigration("v10", migrate: addListedKeys)
        migrator.registerMigration("v11", migrate: addSeenDevices)
        migrator.registerMigration("v12", migrate: indexDevelopmentDevices)
        migrator.registerMigration("v13", migrate: addPosture)
        migrator.registerMigration("v14", migrate: addSignals)
        migrator.registerMigration("v15", migrate: addFederation)
        return migrator
    }

    static func isBeingMade(_ database: Database) throws -> Bool {
        try Int32.fetchOne(database, sql: "PRAGMA user_version") == beingMade
    }

    private static func createFirst(_ database: Database) throws {
        try database.execute(sql: "PRAGMA application_id = \(applicationID)")
        // Devices and bindings are never deleted. The row of a key prevents a second registration or binding. Counters
        // have their own table, because folding often rewrites them and small rows share a page.
        try database.execute(
            sql: """
                CREATE TABLE store (
                    only INTEGER PRIMARY KEY CHECK (only = 1),
                    id BLOB NOT NULL CHECK (length(id) = 16),
                    epoch BLOB NOT NULL CHECK (length(epoch) = 16)
                ) STRICT;

                CREATE TABLE device (
                    id INTEGER PRIMARY KEY,
                    hardware_key BLOB NOT NULL UNIQUE CHECK (length(hardware_key) = 32),
                    app TEXT NOT NULL,
                    platform TEXT NOT NULL,
                    environment TEXT NOT NULL,
                    point BLOB NOT NULL CHECK (length(point) = 65),
                    registered_at INTEGER NOT NULL,
                    revoked_at INTEGER
                ) STRICT;

                CREATE TABLE counter (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    highest INTEGER NOT NULL CHECK (highest BETWEEN 0 AND 4294967295),
                    bits BLOB NOT NULL CHECK (length(bits) = 128)
                ) STRICT;

                CREATE TABLE binding (
                    key BLOB PRIMARY KEY CHECK (length(key) = 32),
                    device INTEGER NOT NULL REFERENCES device (id),
                    created_at INTEGER NOT NULL,
                    ended_at INTEGER
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX binding_device ON binding (device);

                CREATE TABLE journal (
                    seq INTEGER PRIMARY KEY,
                    device INTEGER NOT NULL,
                    counter INTEGER NOT NULL CHECK (counter BETWEEN 0 AND 4294967295)
                ) STRICT;
                """)
        let identity = StoreIdentity(store: RandomID(), epoch: RandomID())
        try database.execute(
            sql: "INSERT INTO store (only, id, epoch) VALUES (1, ?, ?)",
            arguments: [identity.store.bytes.blob, identity.epoch.bytes.blob])
    }

    /// Adds the tables for enrolment. Operators registered all existing devices, so they are active.
    private static func addEnrolment(_ database: Database) throws {
        try database.execute(
            sql: """
                -- Without an activation a device is pending.
                ALTER TABLE device ADD COLUMN activated_at INTEGER;
                ALTER TABLE device ADD COLUMN approved_at INTEGER;
                ALTER TABLE device ADD COLUMN subject BLOB CHECK (subject IS NULL OR length(subject) = 32);
                UPDATE device SET activated_at = registered_at;
                CREATE INDEX device_pending ON device (id) WHERE activated_at IS NULL;
                CREATE INDEX device_subject ON device (subject) WHERE subject IS NOT NULL;

                CREATE TABLE attestation (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    digest BLOB NOT NULL CHECK (length(digest) = 32),
                    certificate_key BLOB CHECK (certificate_key IS NULL OR length(certificate_key) = 32),
                    receipt BLOB CHECK (receipt IS NULL OR length(receipt) <= \(AttestationRecord.receiptLimit)),
                    risk_metric INTEGER CHECK (risk_metric IS NULL OR risk_metric BETWEEN 0 AND 4294967295)
                ) STRICT;

                -- When a binding is to end; ended_at is set once that has come.
                ALTER TABLE binding ADD COLUMN ends_at INTEGER;
                CREATE INDEX binding_end ON binding (ends_at) WHERE ends_at IS NOT NULL AND ended_at IS NULL;

                CREATE TABLE used_nonce (
                    id BLOB PRIMARY KEY CHECK (length(id) = 32),
                    expires_at INTEGER NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX used_nonce_expiry ON used_nonce (expires_at);
                CREATE TABLE used_token (
                    id BLOB PRIMARY KEY CHECK (length(id) = 32),
                    expires_at INTEGER NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX used_token_expiry ON used_token (expires_at);
                -- The latest expiry of a row that was removed: whatever expires by then is refused, whatever the clock says.
                ALTER TABLE store ADD COLUMN nonces_removed INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE store ADD COLUMN tokens_removed INTEGER NOT NULL DEFAULT 0;

                CREATE TABLE revoked_subject (
                    subject BLOB PRIMARY KEY CHECK (length(subject) = 32),
                    revoked_at INTEGER NOT NULL
                ) STRICT, WITHOUT ROWID;
                """)
    }

    /// Adds the tables for revocation lists. Earlier certificates are unknown.
    private static func addIssuedCertificates(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE issued_certificate (
                    serial BLOB PRIMARY KEY CHECK (length(serial) BETWEEN 1 AND 20),
                    binding BLOB NOT NULL REFERENCES binding (key),
                    not_after INTEGER NOT NULL
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX issued_certificate_end ON issued_certificate (not_after);
                -- The number of the latest revocation list.
                ALTER TABLE store ADD COLUMN revocation_list INTEGER NOT NULL DEFAULT 0;
                """)
    }

    /// Adds the app extensions that a device has shown, as numbered by `ShownExtensions`. They are empty for existing
    /// devices.
    private static func addShownExtensions(_ database: Database) throws {
        try database.execute(
            sql: """
                ALTER TABLE device ADD COLUMN
                    shown_extensions INTEGER NOT NULL DEFAULT 0 CHECK (shown_extensions BETWEEN 0 AND 255);
                """)
    }

    /// Moves receipts into their own table with the state of their refresh, because attestations never change but
    /// receipts do. Existing receipts are due at once.
    private static func setReceiptsApart(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE receipt (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    risk_metric INTEGER CHECK (risk_metric IS NULL OR risk_metric BETWEEN 0 AND 4294967295),
                    created_at INTEGER,
                    next_at INTEGER,
                    asked_at INTEGER,
                    outcome TEXT,
                    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
                    -- The last column: a reader of the others reads none of its further pages.
                    content BLOB NOT NULL CHECK (length(content) <= \(AttestationRecord.receiptLimit))
                ) STRICT;
                INSERT INTO receipt (device, risk_metric, next_at, content)
                    SELECT device, risk_metric, 0, receipt FROM attestation WHERE receipt IS NOT NULL;
                CREATE INDEX receipt_next ON receipt (next_at) WHERE next_at IS NOT NULL;
                CREATE INDEX receipt_risk ON receipt (risk_metric) WHERE risk_metric IS NOT NULL;
                ALTER TABLE attestation DROP COLUMN receipt;
                ALTER TABLE attestation DROP COLUMN risk_metric;
                """)
    }

    /// Adds columns and tables for the witness, which is outside the store.
    private static func addWitness(_ database: Database) throws {
        try database.execute(
            sql: """
                -- Keys that are barred although nothing else here says so: the revocation journal knew them when the
                -- store did not. Registering and binding check this table.
                CREATE TABLE barred_key (
                    key BLOB NOT NULL CHECK (length(key) = 32),
                    -- As what it is barred: a hardware key that was revoked, or an mTLS key whose binding has ended.
                    kind TEXT NOT NULL CHECK (kind IN ('hardware', 'mtls')),
                    barred_at INTEGER NOT NULL,
                    PRIMARY KEY (key, kind)
                ) STRICT, WITHOUT ROWID;
                -- Grows with whatever is written, over the store's whole life: no row of the journal ever had a higher number.
                ALTER TABLE store ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
                -- Grows with every revocation, restoration and end of a binding.
                ALTER TABLE store ADD COLUMN standing INTEGER NOT NULL DEFAULT 0;
                -- Grows with every fresh epoch.
                ALTER TABLE store ADD COLUMN epoch_number INTEGER NOT NULL DEFAULT 0;
                -- Whether there ever was a revocation journal.
                ALTER TABLE store ADD COLUMN is_journaled INTEGER NOT NULL DEFAULT 0 CHECK (is_journaled IN (0, 1));
                """)
    }

    /// Adds the system version in an attestation. It is unknown for existing devices.
    private static func addSystemVersion(_ database: Database) throws {
        try database.execute(sql: "ALTER TABLE attestation ADD COLUMN os_version TEXT")
    }

    /// Adds what Android's attestations say of phones. It is NULL for other phones.
    private static func addPhones(_ database: Database) throws {
        try database.execute(
            sql: """
                ALTER TABLE attestation ADD COLUMN tag BLOB CHECK (tag IS NULL OR length(tag) BETWEEN 16 AND 64);
                CREATE UNIQUE INDEX attestation_tag ON attestation (tag) WHERE tag IS NOT NULL;
                ALTER TABLE attestation ADD COLUMN security_level TEXT;
                ALTER TABLE attestation ADD COLUMN boot_state TEXT;
                ALTER TABLE attestation ADD COLUMN is_locked INTEGER CHECK (is_locked IS NULL OR is_locked IN (0, 1));
                ALTER TABLE attestation ADD COLUMN boot_key BLOB
                    CHECK (boot_key IS NULL OR length(boot_key) <= \(AttestedPhone.bootKeyLimit));
                -- As the attestation has it: year and month, and year, month and day.
                ALTER TABLE attestation ADD COLUMN patch_level INTEGER;
                ALTER TABLE attestation ADD COLUMN vendor_patch_level INTEGER;
                ALTER TABLE attestation ADD COLUMN boot_patch_level INTEGER;
                ALTER TABLE attestation ADD COLUMN app_version INTEGER;
                -- What Google Play said: verdicts with spaces between them, and when it was asked.
                ALTER TABLE attestation ADD COLUMN integrity TEXT;
                ALTER TABLE attestation ADD COLUMN integrity_at INTEGER;
                -- The certificates that vouch for a device's keys, by which revoked ones are found.
                CREATE TABLE attested_serial (
                    device INTEGER NOT NULL REFERENCES device (id),
                    -- In lower-case hexadecimal without leading zeros.
                    serial TEXT NOT NULL CHECK (length(serial) BETWEEN 1 AND 40),
                    PRIMARY KEY (device, serial)
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX attested_serial_serial ON attested_serial (serial);
                """)
    }

    /// Adds whether a certificate on which a phone's keys rest is listed as revoked.
    private static func addListedKeys(_ database: Database) throws {
        try database.execute(
            sql: """
                ALTER TABLE attestation ADD COLUMN key_listed INTEGER NOT NULL DEFAULT 0 CHECK (key_listed IN (0, 1));
                CREATE INDEX attestation_listed ON attestation (device) WHERE key_listed = 1;
                """)
    }

    /// Adds the day on which a device was last seen. Rows of devices are hardly ever rewritten, so it has its own table.
    private static func addSeenDevices(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE device_seen (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    -- In days since 1970-01-01 UTC.
                    day INTEGER NOT NULL
                ) STRICT;
                -- By which a later certificate of a key is found.
                CREATE INDEX issued_certificate_binding ON issued_certificate (binding);
                """)
    }

    /// Adds the index by which devices that were attested for development are counted.
    private static func indexDevelopmentDevices(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE INDEX device_development ON device (app) WHERE environment = 'development' AND revoked_at IS NULL
                """)
    }

    /// Adds what is known of a device besides. NULL is right for existing devices: their attestation is that of the
    /// registration, and the rest is unknown.
    private static func addPosture(_ database: Database) throws {
        try database.execute(
            sql: """
                -- When a certificate's key was last attested. NULL if the attestation of the registration is the newest.
                ALTER TABLE attestation ADD COLUMN attested_at INTEGER;
                -- Of an app on Apple's systems, as shown last. NULL if never.
                ALTER TABLE attestation ADD COLUMN bundle_version TEXT;
                ALTER TABLE attestation ADD COLUMN validation_category INTEGER
                    CHECK (validation_category IS NULL OR validation_category BETWEEN 0 AND 255);
                -- Whether the newest certificate's key of an Android phone is attested. NULL if unknown.
                ALTER TABLE attestation ADD COLUMN certificate_key_attested INTEGER
                    CHECK (certificate_key_attested IS NULL OR certificate_key_attested IN (0, 1));
                """)
    }

    /// Adds what apps say of their phones. They have a table of their own, because devices without an attestation may have
    /// them, too.
    private static func addSignals(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE signals (
                    device INTEGER PRIMARY KEY REFERENCES device (id),
                    claimed_at INTEGER NOT NULL,
                    -- Repeats what policies use of the claims. NULL if there is nothing.
                    claimed_os_version TEXT,
                    claimed_device_secure INTEGER
                        CHECK (claimed_device_secure IS NULL OR claimed_device_secure IN (0, 1)),
                    -- An object in JSON. The last column, as it is long.
                    claims BLOB NOT NULL CHECK (length(claims) <= \(Signals.sizeLimit))
                ) STRICT;
                """)
    }

    /// Adds the federation's tokens and services.
    private static func addFederation(_ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE federation_token (
                    -- SHA-256 of the token.
                    id BLOB PRIMARY KEY CHECK (length(id) = 32),
                    kind TEXT NOT NULL CHECK (kind IN ('instance', 'code', 'service', 'app')),
                    -- The token from which it was derived. Its row is not removed before this one.
                    parent BLOB CHECK (parent IS NULL OR length(parent) = 32),
                    device INTEGER NOT NULL REFERENCES device (id),
                    audience TEXT NOT NULL CHECK (length(audience) <= \(FederationToken.textLimit)),
                    party TEXT,
                    scope TEXT NOT NULL CHECK (length(scope) <= \(FederationToken.textLimit)),
                    thumbprint TEXT,
                    issued_at INTEGER NOT NULL,
                    expires_at INTEGER NOT NULL,
                    revoked_at INTEGER
                ) STRICT, WITHOUT ROWID;
                CREATE INDEX federation_token_device ON federation_token (device);
                CREATE INDEX federation_token_parent ON federation_token (parent) WHERE parent IS NOT NULL;
                CREATE INDEX federation_token_expiry ON federation_token (expires_at);
                CREATE TABLE federation_service (
                    id TEXT PRIMARY KEY CHECK (length(id) = 36),
                    name TEXT NOT NULL,
                    url TEXT NOT NULL UNIQUE,
                    token_endpoint TEXT NOT NULL,
                    description_url TEXT NOT NULL,
                    info TEXT,
                    operator TEXT NOT NULL,
                    -- SHA-256 of its own token.
                    secret BLOB NOT NULL UNIQUE CHECK (length(secret) = 32),
                    joined_at INTEGER NOT NULL,
                    approved_at INTEGER,
                    revoked_at INTEGER
                ) STRICT, WITHOUT ROWID;
                """)
    }

    /// Adds the check value of the secret for pseudonyms, and the state of an import.
    private static func addSecretCheck(_ database: Database) throws {
        try database.execute(
            sql: """
                -- Derived from the secret; nil until one is shown.
                ALTER TABLE store ADD COLUMN secret_check BLOB CHECK (secret_check IS NULL OR length(secret_check) = 32);
                -- Whether an import is to fill it, and has not yet: nobody else may use it.
                ALTER TABLE store ADD COLUMN is_loading INTEGER NOT NULL DEFAULT 0 CHECK (is_loading IN (0, 1));
                """)
        guard try isBeingMade(database) else { return }
        try database.execute(sql: "UPDATE store SET is_loading = 1")
        try database.execute(sql: "PRAGMA user_version = 0")
    }
}
