import EventLoop
import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite

@Suite("Enrolment with a failing database", .enabled(if: PostgreSQLServer.shared != nil))
struct EnrolmentFaultTests {
    private let place: PostgreSQLPlace
    private let store: AskedStore

    init() throws {
        place = try PostgreSQLPlace()
        store = try AskedStore(place)
        guard case .registered = try store.initialize(store.initialization(1)) else { throw AskedStore.OtherReply() }
    }

    /// Runs SQL when a row comes into a table: at once, or at the end of the transaction.
    private func when(inserting table: String, isLate: Bool = false, _ sql: String) throws {
        let trigger =
            isLate
            ? "CONSTRAINT TRIGGER trap AFTER INSERT ON \(table) DEFERRABLE INITIALLY DEFERRED"
            : "TRIGGER trap AFTER INSERT ON \(table)"
        _ = try place.execute(
            """
            CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(sql); RETURN NULL; END $$;
            CREATE \(trigger) FOR EACH ROW EXECUTE FUNCTION trap()
            """)
    }

    private func repair(_ table: String) throws {
        _ = try place.execute("DROP TRIGGER trap ON \(table); DROP FUNCTION trap()")
        #expect(store.run { store.recoveries == 1 })
    }

    private func bind(_ nonce: Int, _ counter: UInt32) throws -> KeyBindingVerdict {
        try store.bind(store.keyBinding(1, key: 1, nonce: nonce, counter: counter))
    }

    /// What a binding leaves.
    private func expectNothing() throws {
        for table in ["binding", "issued_certificate", "change"] {
            #expect(try place.execute("SELECT count(*) FROM \(table)").text(0, 0) == "0", "\(table)")
        }
        #expect(try place.execute("SELECT count(*) FROM device WHERE activated_at IS NOT NULL").text(0, 0) == "0")
        // That of its initialization.
        #expect(try place.execute("SELECT count(*) FROM used_nonce").text(0, 0) == "1")
    }

    @Test("a failure in the middle uses only the counter, and the nonce stays valid")
    func inTheMiddle() throws {
        try when(inserting: "issued_certificate", "RAISE 'refused by a test'")
        #expect(throws: StoreError.unavailable) { try bind(1, 1) }
        try expectNothing()
        try repair("issued_certificate")
        #expect(try bind(1, 1).refusal == .counterReplayed)
        #expect(try bind(1, 2).kind == .first)
    }

    @Test("a connection lost before the commit binds nothing and uses the counter")
    func lost() throws {
        try when(inserting: "change", "PERFORM pg_terminate_backend(pg_backend_pid())")
        #expect(throws: StoreError.unavailable) { try bind(1, 1) }
        try expectNothing()
        try repair("change")
        #expect(try bind(1, 1).refusal == .counterReplayed)
        #expect(try bind(1, 2).kind == .first)
    }

    @Test(
        "a commit with a warning is treated as failed: no certificate is issued")
    func warned() throws {
        try when(inserting: "change", isLate: true, "RAISE WARNING 'canceling wait for synchronous replication'")
        #expect(throws: StoreError.unavailable) { try bind(1, 1) }
        try repair("change")
        // It was done after all: the key is bound, and the next request for a certificate gets one.
        #expect(try bind(2, 1).refusal == .counterReplayed)
        #expect(try bind(2, 2).kind == .renewal)
    }

    @Test(
        "a serialization failure at the commit repeats the whole transaction", arguments: ["40001", "40P01", "23505"])
    func triedAgain(_ state: String) throws {
        _ = try place.execute("CREATE SEQUENCE tries; GRANT ALL ON SEQUENCE tries TO attestgate")
        try when(
            inserting: "change", isLate: true,
            "IF nextval('tries') <= 2 THEN RAISE 'not now' USING ERRCODE = '\(state)'; END IF")
        #expect(try bind(1, 1).kind == .first)
        #expect(try place.execute("SELECT last_value FROM tries").text(0, 0) == "3")
        #expect(store.failures.isEmpty)
        #expect(try place.execute("SELECT count(*) FROM change").text(0, 0) == "1")
        #expect(try store.commit(try #require(try store.find(1)).id, 1, 2) == .committed)
    }

    @Test("a refusal holds no lock that another gateway waits for")
    func refused() throws {
        #expect(try store.bind(store.keyBinding(2, key: 1, nonce: 1, counter: 1)).refusal == .deviceUnknown)
        #expect(
            try place.execute(
                """
                SELECT count(*) FROM pg_locks
                WHERE relation = 'feed'::regclass AND mode = 'ExclusiveLock'
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                """
            ).text(0, 0) == "0")
        let other = try AskedStore(place)
        #expect(try other.bind(other.keyBinding(1, key: 1, nonce: 1, counter: 1)).kind == .first)
    }

    @Test("of concurrently barring and registering a key, only one succeeds")
    func barredMeanwhile() throws {
        let key = Fixture.hardwareKey(2).bytes.map { String(format: "%02x", $0) }.joined()
        let other = try place.server.connect(to: place.database)
        let deadline = { Instant.now + .seconds(30) }
        // As a gateway does whose journal knows the key: it looks for the device first, and finds none.
        let found = try other.execute(
            """
            SET search_path = attestgate; BEGIN ISOLATION LEVEL SERIALIZABLE;
            SELECT id FROM device WHERE hardware_key = '\\x\(key)'
            """, until: deadline())
        #expect(found.rows == 0)
        guard case .registered = try store.initialize(store.initialization(2)) else { throw AskedStore.OtherReply() }
        let fault = #expect(throws: DatabaseFault.self) {
            try other.execute(
                "INSERT INTO barred_key (key, kind, barred_at) VALUES ('\\x\(key)', 'hardware', 900); COMMIT",
                until: deadline())
        }
        // It looks again then, and finds the device.
        #expect(fault?.isPassing == true)
    }
}
