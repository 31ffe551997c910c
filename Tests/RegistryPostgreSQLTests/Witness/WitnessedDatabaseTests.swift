import Foundation
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite
@testable import RevocationJournal

@Suite("A rolled-back database", .enabled(if: PostgreSQLServer.shared != nil))
struct WitnessedDatabaseTests {
    private let place: PostgreSQLPlace
    private let gateways: [WitnessedFile]

    init() throws {
        place = try PostgreSQLPlace()
        gateways = [try WitnessedFile(), try WitnessedFile()]
    }

    private func open(_ gateway: Int = 0, acceptsLoss: Bool = false) throws -> AskedStore {
        let settings = gateways[gateway].settings(acceptsLoss: acceptsLoss)
        return try AskedStore(try place.open(witness: settings))
    }

    private func isWentBack(_ gateway: Int = 0, isEpochFresh: Bool = true) -> Bool {
        let heard = gateways[gateway].heard()
        if case .wentBack(_, isEpochFresh)? = heard.first { return heard.count == 1 }
        return false
    }

    /// As a dump holds the rows.
    private func keepRows() throws {
        _ = try place.execute(
            """
            CREATE SCHEMA kept; CREATE TABLE kept.device AS SELECT * FROM device; CREATE TABLE kept.binding AS SELECT * FROM binding;
            CREATE TABLE kept.counter AS SELECT * FROM counter; CREATE TABLE kept.feed AS SELECT * FROM feed;
            CREATE TABLE kept.change AS SELECT * FROM change
            """)
    }

    /// Restores them into the tables as they stand.
    private func putRowsBack() throws {
        _ = try place.execute(
            """
            DELETE FROM receipt; DELETE FROM issued_certificate; DELETE FROM attestation; DELETE FROM change; DELETE FROM feed;
            DELETE FROM binding; DELETE FROM counter; DELETE FROM device_seen; DELETE FROM device;
            INSERT INTO device OVERRIDING SYSTEM VALUE SELECT * FROM kept.device;
            INSERT INTO counter SELECT * FROM kept.counter; INSERT INTO binding SELECT * FROM kept.binding;
            INSERT INTO feed SELECT * FROM kept.feed; INSERT INTO change SELECT * FROM kept.change
            """)
    }

    @Test(
        "rolled-back rows get a fresh epoch, and every revocation is applied again"
    )
    func rows() throws {
        var store: AskedStore? = try open()
        let ids = try #require(try store?.populate(3))
        try keepRows()
        try store?.perform(.revoke(ids[0]), at: 1_200)
        try store?.perform(.endBinding(Fixture.bindingKey(2)), at: 1_300)
        let late = try #require(
            try store?.details(.register(Fixture.identity(4), binding: Fixture.bindingKey(4))).device.id)
        try store?.perform(.revoke(late), at: 1_400)
        #expect(try store?.commit(ids[2], 3, 7) == .committed)
        let spent = try #require(store?.entry(ids[2], 3, 7))
        store = nil
        #expect(gateways[0].heard() == [])
        try putRowsBack()
        store = try open()
        #expect(isWentBack())
        #expect(try store?.commit([spent]) == [.epochChanged])
        #expect(try store?.details(.show(.id(ids[0]))).device.revokedAt == 1_200)
        #expect(try store?.commit(ids[0], 1, 1) == .deviceRevoked)
        #expect(try store?.commit(ids[1], 2, 1) == .bindingEnded)
        #expect(try store?.initialize(try #require(store?.initialization(4))).refusal == .deviceRevoked)
        // And once is enough.
        let renewed = store?.identity
        store = nil
        store = try open()
        #expect(store?.identity == renewed)
        #expect(gateways[0].heard() == [])
    }

    @Test(
        "rolled-back rows under an unchanged change number lose no revocation")
    func rowsUnderTheirFeed() throws {
        var store: AskedStore? = try open()
        let ids = try #require(try store?.populate(3))
        try store?.perform(.revoke(ids[2]), at: 1_100)
        try keepRows()
        try store?.perform(.revoke(ids[0]), at: 1_200)
        try store?.perform(.endBinding(Fixture.bindingKey(2)), at: 1_300)
        try store?.perform(.restore(ids[2]), at: 1_400)
        store = nil
        _ = try place.execute(
            """
            UPDATE device SET revoked_at = old.revoked_at FROM kept.device old WHERE old.id = device.id;
            UPDATE binding SET ended_at = old.ended_at FROM kept.binding old WHERE old.key = binding.key
            """)
        store = try open()
        #expect(isWentBack())
        #expect(try store?.details(.show(.id(ids[0]))).device.revokedAt == 1_200)
        #expect(try store?.commit(ids[1], 2, 1) == .bindingEnded)
        // Nothing is restored by itself.
        #expect(try store?.commit(ids[2], 3, 1) == .deviceRevoked)
        let renewed = store?.identity
        store = nil
        store = try open()
        #expect(store?.identity == renewed)
        #expect(gateways[0].heard() == [])
        #expect(try gateways[0].revocations.revoked.count == 2)
    }

    @Test("a device restored at another gateway is restored in this one's journal, too")
    func restoredElsewhere() throws {
        var first: AskedStore? = try open(0)
        let ids = try #require(try first?.populate(1))
        try first?.perform(.revoke(ids[0]), at: 1_200)
        first = nil
        var second: AskedStore? = try open(1)
        try second?.perform(.restore(ids[0]), at: 1_300)
        second = nil
        first = try open(0)
        #expect(gateways[0].heard() == [])
        #expect(try gateways[0].revocations.revoked == [:])
        #expect(try first?.commit(ids[0], 1, 1) == .committed)
    }

    @Test("a rolled-back data directory is detected: its log ends before the mark")
    func directory() throws {
        var store: AskedStore? = try open()
        try store?.populate(1)
        let before = try #require(store?.identity)
        store = nil
        // The log of this server is not for one test to put back: the mark says what another has seen.
        let mark = try #require(try gateways[0].mark())
        let ahead = StoreProgress(
            store: mark.progress.store, lineage: mark.progress.lineage, position: mark.progress.position + (1 << 40),
            standing: mark.progress.standing, epochNumber: mark.progress.epochNumber)
        var marks = try MarkFile(gateways[0].markPath)
        try marks.write(ahead, journal: mark.journal, at: mark.time, isSynced: true)
        store = try open()
        #expect(isWentBack())
        #expect(store?.identity.epoch != before.epoch)
        #expect(store?.identity.store == before.store)
    }

    @Test("after a restored dump the fleet draws one fresh epoch, and each gateway adds its revocations")
    func dump() throws {
        let stores = [try open(0), try open(1)]
        let ids = try stores[0].populate(2)
        let before = stores[0].identity
        for (index, store) in stores.enumerated() { try store.perform(.revoke(ids[index]), at: 1_200) }
        // Each has heard of the other's.
        for store in stores { store.run { store.changes.count >= 8 } }
        try finishAll(stores)
        _ = try place.execute(
            """
            UPDATE device SET revoked_at = NULL;
            CREATE TABLE other (LIKE store INCLUDING ALL); INSERT INTO other SELECT * FROM store;
            DROP TABLE store; ALTER TABLE other RENAME TO store; ALTER TABLE store OWNER TO attestgate
            """)
        for gateway in gateways { #expect(try gateway.revocations.revoked.count == 2) }
        let first = try open(0)
        #expect(isWentBack(0))
        #expect(first.identity.epoch != before.epoch)
        #expect(try first.details(.show(.id(ids[0]))).device.state == .revoked)
        #expect(try first.details(.show(.id(ids[1]))).device.state == .revoked)
        let second = try open(1)
        #expect(isWentBack(1, isEpochFresh: false))
        #expect(second.identity == first.identity)
    }

    /// Lets each end in order.
    private func finishAll(_ stores: [AskedStore]) throws {
        for store in stores {
            var isFinished = false
            store.backend.finish { isFinished = true }
            store.run { isFinished }
        }
    }

    @Test("a gateway learns at its start what others revoked, without a fresh epoch")
    func away() throws {
        var first: AskedStore? = try open(0)
        let ids = try #require(try first?.populate(2))
        first = nil
        var second: AskedStore? = try open(1)
        let identity = second?.identity
        try second?.perform(.revoke(ids[0]), at: 1_200)
        try second?.perform(.endBinding(Fixture.bindingKey(2)), at: 1_300)
        try second?.perform(.revokeSubject(Fixture.subject(1)), at: 1_400)
        second = nil
        first = try open(0)
        #expect(first?.identity == identity)
        #expect(gateways[0].heard() == [])
        first = nil
        for gateway in gateways {
            #expect(try gateway.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
            #expect(try gateway.revocations.ended == [Fixture.bindingKey(2): 1_300])
            #expect(try gateway.revocations.barred == [Fixture.subject(1): 1_400])
        }
    }

    @Test("a running gateway records what others revoke, and when a replaced key ends")
    func heard() throws {
        let stores = [try open(0), try open(1)]
        let ids = try stores[0].populate(2)
        try stores[0].perform(.revoke(ids[0]), at: 1_200)
        let request = stores[0].keyBinding(2, key: 9, nonce: 1, counter: 1, overlap: 300)
        #expect(try stores[0].bind(request, at: 1_000).kind == .rotation)
        try stores[0].perform(.revokeSubject(Fixture.subject(1)), at: 1_400)
        let other = gateways[1]
        let isThere = stores[1].run {
            guard let known = try? other.revocations else { return false }
            return known.count == 3
        }
        #expect(isThere)
        #expect(try other.revocations.ended == [Fixture.bindingKey(2): 1_300])
        #expect(try other.revocations.revoked == [Fixture.hardwareKey(1): 1_200])
        #expect(try other.revocations.barred == [Fixture.subject(1): 1_400])
    }

    @Test("a gateway without a journal joins an unmoved database and is refused a moved one")
    func join() throws {
        do { try open(0).populate(1) }
        do {
            let joined = try open(1)
            #expect(joined.backend.isAvailable)
        }
        try FileManager.default.removeItem(atPath: gateways[1].journalPath)
        _ = try place.execute("UPDATE store SET mark = 'elsewhere'")
        let before = try place.execute("SELECT encode(epoch, 'hex') FROM store").text(0, 0)
        #expect(throws: StoreOpenError.revocationsLost(path: gateways[1].journalPath)) { try open(1) }
        // Nor was the move forgotten by that.
        #expect(try place.execute("SELECT mark FROM store").text(0, 0) == "elsewhere")
        #expect(try place.execute("SELECT encode(epoch, 'hex') FROM store").text(0, 0) == before)
        _ = try open(1, acceptsLoss: true)
        #expect(gateways[1].heard() == [.lossAccepted(path: gateways[1].journalPath)])
        #expect(try place.execute("SELECT encode(epoch, 'hex') FROM store").text(0, 0) != before)
    }

    @Test("a process that takes over shares the journal and keeps it afterwards")
    func overlap() throws {
        var older: AskedStore? = try open(0)
        let ids = try #require(try older?.populate(3))
        var settings = gateways[0].settings()
        #expect(throws: StoreOpenError.locked(path: gateways[0].journalPath)) { try place.open(witness: settings) }
        settings.mayShare = true
        let newer = try AskedStore(try place.open(witness: settings))
        try newer.perform(.revoke(ids[0]), at: 1_200)
        let file = gateways[0]
        #expect(older?.run { (try? file.revocations.revoked.count) == 1 } == true)
        older = nil
        try newer.perform(.revoke(ids[1]), at: 1_300)
        #expect(newer.run { (try? file.revocations.revoked.count) == 2 })
        #expect(newer.identity.epoch == (try open(1)).identity.epoch)
    }
}
