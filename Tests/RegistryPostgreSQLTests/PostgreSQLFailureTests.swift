import EventLoop
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("A failing database", .enabled(if: PostgreSQLServer.shared != nil))
struct PostgreSQLFailureTests {
    private let place: PostgreSQLPlace

    init() throws {
        place = try PostgreSQLPlace()
    }

    /// Runs SQL after each change of a counter, at the end of its transaction.
    private func whenCommitting(_ sql: String) throws {
        _ = try place.execute(
            """
            CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(sql); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON counter DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION late()
            """)
    }

    @Test("a commit with a warning is treated as failed, and its value stays used")
    func warning() throws {
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        #expect(try store.commit(id, 1, 1) == .committed)
        // As PostgreSQL tells that it did not wait for a synchronous standby any longer.
        try whenCommitting("RAISE WARNING 'canceling wait for synchronous replication due to user request'")
        #expect(try store.commit(id, 1, 2) == .storeUnavailable)
        #expect(store.failures == ["a commit was answered with a warning"])
        _ = try place.execute("DROP TRIGGER late ON counter")
        #expect(store.run { store.recoveries == 1 })
        #expect(try store.commit(id, 1, 2, mode: window(8)) == .replayed)
        #expect(try store.commit(id, 1, 3) == .committed)
    }

    @Test("an operation with a warning is treated as failed")
    func warningOnCommand() throws {
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        try whenCommitting("RAISE WARNING 'canceling wait'")
        // Changes the counter's row, where the standing has its number.
        #expect(throws: StoreError.unavailable) { try store.perform(.revoke(id)) }
        #expect(store.failures.count == 1)
        _ = try place.execute("DROP TRIGGER late ON counter")
        #expect(store.run { store.recoveries == 1 })
        #expect(try store.commit(id, 1, 1) == .deviceRevoked)
    }

    @Test("a commit on a lost connection is refused, not repeated, and its value stays used")
    func lostInCommit() throws {
        let store = try AskedStore(place)
        let ids = try store.populate(2)
        #expect(try store.commit(ids[0], 1, 1) == .committed)
        // Somebody holds the row, so that the commit has to wait.
        let other = try place.server.connect(to: place.database)
        let deadline = { Instant.now + .seconds(30) }
        _ = try other.execute(
            "SET search_path = attestgate; BEGIN; SELECT * FROM counter WHERE device = \(ids[0]) FOR UPDATE",
            until: deadline())
        var outcomes: [CounterOutcome] = []
        store.backend.commit([store.entry(ids[0], 1, 2)]) { outcomes.append($1) }
        store.backend.commit([store.entry(ids[1], 2, 1)]) { outcomes.append($1) }
        let waiting = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = '\(place.database)' AND usename = 'attestgate' AND wait_event_type = 'Lock'
            """
        #expect(store.run { (try? self.place.execute(waiting).text(0, 0)) == "1" })
        #expect(outcomes.isEmpty)
        _ = try place.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(place.database)' AND usename = 'attestgate'"
        )
        #expect(store.run { outcomes.count == 2 })
        #expect(outcomes == [.storeUnavailable, .storeUnavailable])
        _ = try other.execute("ROLLBACK", until: deadline())
        #expect(store.run { store.recoveries == 1 })
        #expect(
            try store.commit([store.entry(ids[0], 1, 2, mode: window(8)), store.entry(ids[1], 2, 1, mode: window(8))])
                == [.replayed, .replayed])
        #expect(try store.commit(ids[0], 1, 3) == .committed)
    }

    @Test("a database that does not answer in time is abandoned, and the values stay used")
    func slow() throws {
        var settings = place.server.settings(place.database)
        settings.limits.statement = .seconds(60)
        let store = try AskedStore(try PostgreSQLStore(settings))
        let id = try store.populate(1)[0]
        // For as long as another has the lock.
        let other = try place.server.connect(to: place.database)
        _ = try other.execute("SELECT pg_advisory_lock(1)", until: .now + .seconds(30))
        try whenCommitting("PERFORM pg_advisory_xact_lock(1)")
        #expect(try store.commit(id, 1, 1) == .storeUnavailable)
        #expect(store.failures == ["no answer within 3000 ms"])
        _ = try other.execute("SELECT pg_advisory_unlock(1)", until: .now + .seconds(30))
        _ = try place.execute("DROP TRIGGER late ON counter")
        #expect(store.run { store.recoveries == 1 })
        #expect(try store.commit(id, 1, 1, mode: window(8)) == .replayed)
    }

    @Test("a serialization failure is retried with the same values", arguments: ["40001", "40P01"])
    func triedAgain(_ state: String) throws {
        let store = try AskedStore(place)
        let id = try store.populate(1)[0]
        // The first two fail.
        _ = try place.execute("CREATE SEQUENCE tries; GRANT ALL ON SEQUENCE tries TO attestgate")
        try whenCommitting("IF nextval('tries') <= 2 THEN RAISE 'not now' USING ERRCODE = '\(state)'; END IF")
        #expect(try store.commit(id, 1, 1) == .committed)
        #expect(try place.execute("SELECT last_value FROM tries").text(0, 0) == "3")
        #expect(store.failures.isEmpty)
        _ = try place.execute("SELECT setval('tries', 1, false)")
        try store.perform(.revoke(id))
        #expect(try place.execute("SELECT last_value FROM tries").text(0, 0) == "3")
        #expect(try store.commit(id, 1, 2) == .deviceRevoked)
    }

    @Test("a database that cannot be reached is refused with the reason, without the password")
    func unreachable() throws {
        var settings = place.server.settings("nowhere")
        settings.password = { "a-secret" }
        let error = #expect(throws: StoreOpenError.self) { try PostgreSQLStore(settings) }
        #expect(error?.description.contains("does not exist") == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("a-secret") == false)
        settings.hosts = ["/nowhere/at/all"]
        #expect(throws: StoreOpenError.self) { try PostgreSQLStore(settings) }
    }

    @Test("a silent host costs only its own timeout, then the next one is tried")
    func silentHost() throws {
        let scratch = try Scratch()
        // Takes connections, and never answers.
        let silent = try Socket.listen(on: try SocketAddress(unixPath: scratch.file(".s.PGSQL.5432")), isShared: false)
        var settings = place.server.settings(place.database)
        settings.hosts.insert(scratch.path, at: 0)
        let connection = try DatabaseConnection.open(settings)
        let answer = try connection.execute("SELECT 1", until: .now + .seconds(30))
        #expect(answer.text(0, 0) == "1")
        settings.hosts.removeLast()
        settings.limits.connecting = .seconds(1)
        let fault = #expect(throws: DatabaseFault.self) { try DatabaseConnection.open(settings) }
        #expect(fault?.detail == "\(scratch.path): no connection in time")
        _ = silent.number
    }

    @Test("a database that may lose acknowledged commits is refused")
    func notDurable() throws {
        func refusal(_ settings: PostgreSQLSettings) -> String {
            (#expect(throws: StoreOpenError.self) { try PostgreSQLStore(settings) })?.description ?? ""
        }
        var several = place.server.settings(place.database)
        several.hosts += several.hosts
        #expect(refusal(several).contains("synchronous_standby_names must not be empty"))
        try place.server.execute("ALTER DATABASE \(place.database) SET synchronous_commit = 'local'")
        #expect(refusal(several).contains("synchronous_commit must be on or remote_apply, not local"))
        _ = try PostgreSQLStore(place.server.settings(place.database))
        try place.server.execute("ALTER DATABASE \(place.database) SET synchronous_commit = 'off'")
        #expect(refusal(place.server.settings(place.database)).contains("synchronous_commit must not be off"))
    }

    @Test("a store on another timeline than its epoch's gets a fresh epoch")
    func moved() throws {
        var store: AskedStore? = try AskedStore(place)
        let id = try #require(store).populate(1)[0]
        #expect(try store?.commit(id, 1, 5) == .committed)
        let before = try #require(store?.identity)
        store = nil
        // As after a promotion: the log continues in another timeline.
        _ = try place.execute("UPDATE store SET mark = regexp_replace(mark, '/.*/', '/0000000A/')")
        store = try AskedStore(place)
        #expect(store?.identity.store == before.store)
        #expect(store?.identity.epoch != before.epoch)
        // Once.
        let after = store?.identity
        store = nil
        store = try AskedStore(place)
        #expect(store?.identity == after)
        #expect(try store?.commit(id, 1, 6) == .committed)
    }

    @Test("a restored dump is detected")
    func restored() throws {
        var store: AskedStore? = try AskedStore(place)
        try store?.populate(1)
        let before = try #require(store?.identity)
        store = nil
        // What restoring a table comes to: the same rows in another table.
        _ = try place.execute(
            """
            CREATE TABLE other (LIKE store INCLUDING ALL); INSERT INTO other SELECT * FROM store;
            DROP TABLE store; ALTER TABLE other RENAME TO store; ALTER TABLE store OWNER TO attestgate
            """)
        store = try AskedStore(place)
        #expect(store?.identity.store == before.store)
        #expect(store?.identity.epoch != before.epoch)
    }

    @Test("version 1 tables keep their content and are migrated once")
    func firstSchema() throws {
        var store: AskedStore? = try AskedStore(place)
        let id = try #require(try store?.populate(1).first)
        #expect(try store?.commit(id, 1, 5) == .committed)
        let before = store?.identity
        store = nil
        // As the first version left them.
        _ = try place.execute(
            """
            DROP TABLE federation_token; DROP TABLE federation_service;
            DROP TABLE device_seen; DROP TABLE signals; DROP INDEX issued_certificate_binding; DROP INDEX device_development;
            DROP TABLE barred_key; ALTER TABLE store DROP COLUMN epoch_number; ALTER TABLE store DROP COLUMN is_journaled;
            ALTER TABLE store DROP COLUMN secret_check; ALTER TABLE store DROP COLUMN is_loading;
            ALTER TABLE attestation DROP COLUMN os_version; ALTER TABLE attestation DROP COLUMN security_level;
            ALTER TABLE attestation DROP COLUMN boot_state; ALTER TABLE attestation DROP COLUMN is_locked;
            ALTER TABLE attestation DROP COLUMN boot_key; ALTER TABLE attestation DROP COLUMN patch_level;
            ALTER TABLE attestation DROP COLUMN vendor_patch_level; ALTER TABLE attestation DROP COLUMN boot_patch_level;
            ALTER TABLE attestation DROP COLUMN app_version; ALTER TABLE attestation DROP COLUMN integrity;
            ALTER TABLE attestation DROP COLUMN integrity_at; ALTER TABLE attestation DROP COLUMN tag; DROP TABLE attested_serial;
            ALTER TABLE attestation DROP COLUMN key_listed; ALTER TABLE attestation DROP COLUMN attested_at;
            ALTER TABLE attestation DROP COLUMN bundle_version; ALTER TABLE attestation DROP COLUMN validation_category;
            ALTER TABLE attestation DROP COLUMN certificate_key_attested;
            UPDATE schema_version SET version = 1
            """)
        for value: UInt32 in [6, 7] {
            store = try AskedStore(place)
            #expect(store?.identity == before)
            #expect(try store?.commit(id, 1, value - 1) == .replayed)
            #expect(try store?.commit(id, 1, value) == .committed)
            store = nil
        }
        #expect(try place.execute("SELECT version FROM schema_version").text(0, 0) == "11")
        #expect(try place.execute("SELECT count(os_version) FROM attestation").text(0, 0) == "0")
        #expect(try place.execute("SELECT count(security_level) FROM attestation").text(0, 0) == "0")
        #expect(try place.execute("SELECT count(bundle_version) FROM attestation").text(0, 0) == "0")
        #expect(try place.execute("SELECT count(*) FROM attested_serial").text(0, 0) == "0")
        #expect(try place.execute("SELECT count(*) FROM barred_key").text(0, 0) == "0")
        #expect(try place.execute("SELECT count(claims) FROM signals").text(0, 0) == "0")
        #expect(try place.execute("SELECT epoch_number + is_journaled FROM store").text(0, 0) == "0")
    }

    @Test("tables of a later version are refused and left unchanged")
    func newerSchema() throws {
        try AskedStore(place).populate(1)
        _ = try place.execute("UPDATE schema_version SET version = 99")
        let error = #expect(throws: StoreOpenError.self) { try PostgreSQLStore(place.server.settings(place.database)) }
        guard case .newerSchema = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try place.execute("SELECT version FROM schema_version").text(0, 0) == "99")
    }
}
