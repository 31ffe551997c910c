import EventLoop
import GRDB
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite

/// Where the stores of one test lie, of one kind: the suites of this folder are run for each kind there is.
protocol StorePlace: AnyObject {
    /// Opens the store, which is made when it is opened first. One that was opened before has been closed.
    func open() throws -> any StoreBackend
    /// Opens it for a command. What was opened before has been closed.
    func openAtRest() throws -> any RegistryAtRest
    /// Lets no counter become durable from here on, for no writer.
    func refuseCounters(of backend: any StoreBackend) throws
    func takeCounters(of backend: any StoreBackend) throws
    /// Writes a row of a key that is barred into a store that is closed.
    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws
    /// Has a store that is closed refuse admission tokens that expire until then.
    func refuseTokens(until end: Int64) throws
    /// Opens the store as a process does that uses this secret, and closes it.
    func confirm(_ secret: SecretClaim) throws
    /// Opens it for an import, which makes it where there is none.
    func openForLoading() throws -> any RegistryAtRest
}

/// The kinds of stores, as arguments of tests.
enum StoreKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory
    case sqlite = "SQLite"
    case postgresql = "PostgreSQL"

    /// Those that can be run here.
    static var allCases: [StoreKind] {
        PostgreSQLServer.shared == nil ? [.memory, .sqlite] : [.memory, .sqlite, .postgresql]
    }

    var testDescription: String { rawValue }

    func makePlace() throws -> any StorePlace {
        switch self {
        case .memory: MemoryPlace()
        case .sqlite: try SQLitePlace()
        case .postgresql: try PostgreSQLPlace()
        }
    }
}

/// The content of a store in memory.
final class MemoryPlace: StorePlace {
    private let content = MemoryContent()

    func open() throws -> any StoreBackend { try MemoryStore(content) }

    func openAtRest() throws -> any RegistryAtRest { content }

    func refuseCounters(of backend: any StoreBackend) throws { content.refusesCounters = true }

    func takeCounters(of backend: any StoreBackend) throws { content.refusesCounters = false }

    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws { content.barredKeys[kind, default: [:]][key] = 900 }

    func refuseTokens(until end: Int64) throws { content.refuseTokens(until: end) }

    func confirm(_ secret: SecretClaim) throws { try content.confirm(secret) }

    func openForLoading() throws -> any RegistryAtRest {
        if !content.isPopulated { content.isLoading = true }
        return content
    }
}

/// Refuses by a trigger, which lies in the file.
final class SQLitePlace: StorePlace {
    private let scratch: Scratch
    private var store: RegistryStore?

    init() throws {
        scratch = try Scratch()
    }

    func open() throws -> any StoreBackend {
        store = nil
        let opened = try RegistryStore(path: scratch.file(), creating: true)
        store = opened
        return SQLiteBackend(opened)
    }

    func openAtRest() throws -> any RegistryAtRest {
        store = nil
        return try RegistryStore(path: scratch.file(), creating: true)
    }

    func refuseCounters(of backend: any StoreBackend) throws {
        try store?.transaction { database in
            try database.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
                    """)
        }
    }

    func takeCounters(of backend: any StoreBackend) throws {
        // The store has let go of the file when it failed.
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER refuse") }
        try queue.close()
    }

    func refuseTokens(until end: Int64) throws {
        store = try RegistryStore(path: scratch.file(), creating: true)
        try store?.transaction { try $0.execute(sql: "UPDATE store SET tokens_removed = ?", arguments: [end]) }
        store = nil
    }

    func confirm(_ secret: SecretClaim) throws {
        store = nil
        try RegistryStore(path: scratch.file(), creating: true).confirm(secret)
    }

    func openForLoading() throws -> any RegistryAtRest {
        store = nil
        var options = StoreOptions()
        options.isLoading = true
        return try RegistryStore(path: scratch.file(), creating: true, options: options)
    }

    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws {
        store = nil
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.write {
            try $0.execute(
                sql: "INSERT INTO barred_key (key, kind, barred_at) VALUES (?, ?, 900)",
                arguments: [key.blob, kind.rawValue])
        }
        try queue.close()
    }
}

extension StorePlace {
    /// Devices of every kind, with whatever they may have, and keys that a journal has barred.
    func fill() throws {
        do {
            let store = try AskedStore(self)
            let ids = try store.populate(2)
            for value: UInt32 in [1, 3, 4] { _ = try store.commit(ids[0], 1, value, showing: .validationCategory) }
            try store.perform(.bind(Fixture.bindingKey(101), to: ids[1]), at: 1_200)
            for number in 3...9 { _ = try store.initialize(store.initialization(number)) }
            // 8 and 9 stay pending, 9 is approved.
            for number in 3...7 {
                let admission = AdmissionGrant.token(
                    SingleUse(id: Fixture.token(number).id, expiresAt: WallClock.seconds + 7_200),
                    subject: Fixture.subject(number))
                let binding = store.keyBinding(
                    number, key: number, nonce: number, counter: 1, showing: .bundleVersion, admission: admission)
                guard try store.bind(binding).refusal == nil else { throw AskedStore.OtherReply() }
            }
            let rotation = store.keyBinding(
                7, key: 107, nonce: 107, counter: 9, showing: .bundleVersion, admission: .earlier, overlap: 1_000_000)
            guard try store.bind(rotation, at: 1_400).kind == .rotation else { throw AskedStore.OtherReply() }
            let nine = try store.details(.show(.hardwareKey(Fixture.hardwareKey(9)))).device.id
            try store.perform(.approve(nine), at: 1_300)
            try store.perform(.revoke(store.details(.show(.binding(Fixture.bindingKey(3)))).device.id), at: 1_500)
            try store.perform(.endBinding(Fixture.bindingKey(4)), at: 1_600)
            try store.perform(.revokeSubject(Fixture.subject(6)), at: 1_700)
            try store.perform(.drawRevocationListNumber, at: 1_800)
            try recordReceipts(store)
        }
        try bar(Fixture.hardwareKey(70), .hardware)
        try bar(Fixture.bindingKey(71), .mTLS)
    }

    private func recordReceipts(_ store: AskedStore) throws {
        let claim = ReceiptClaim(at: 1_900, until: 2_900, limit: 2)
        guard case .claimedReceipts(let claimed) = try store.perform(.claimReceipts(claim)) else {
            throw AskedStore.OtherReply()
        }
        for (index, details) in claimed.devices.enumerated() {
            let result = ReceiptResult(
                device: details.device.id, previous: details.attestation?.receipt ?? [],
                newer: index == 0 ? ReceiptResult.NewerReceipt(content: [9, 8, 7, 6], riskMetric: 3) : nil,
                createdAt: 1_890, nextAt: index == 0 ? 3_900 : nil, askedAt: 1_895,
                outcome: index == 0 ? .refreshed : .failed, failures: index)
            guard case .recordedReceipt(.recorded) = try store.perform(.recordReceipt(result)) else {
                throw AskedStore.OtherReply()
            }
        }
    }

    func load(_ records: [ExportRecord], at time: Int64 = WallClock.seconds) throws {
        try openAtRest().load(at: time) { loading throws(RegistryLoadError) in
            for (index, record) in records.enumerated() { try loading.add(record, line: index + 1) }
        }
    }
}

extension AskedStore {
    func exportPage(_ cursor: ExportCursor, limit: Int) throws -> ExportPage {
        guard case .exportPage(let page) = try perform(.export(cursor, limit: limit)) else { throw OtherReply() }
        #expect(page.store == identity.store)
        #expect(page.records.count { if case .head = $0 { false } else { true } } <= limit)
        return page
    }

    /// All but the last line.
    func export(limit: Int = ExportPage.rows) throws -> [ExportRecord] {
        var records: [ExportRecord] = []
        var cursor: ExportCursor? = .start
        while let place = cursor {
            let page = try exportPage(place, limit: limit)
            records += page.records
            cursor = page.next
        }
        return records
    }
}

extension [ExportRecord] {
    /// Without the head, which says when it was made and of what.
    var body: ArraySlice<ExportRecord> { dropFirst() }

    var kinds: [String] {
        var kinds: [String] = []
        for record in self {
            let kind =
                switch record {
                case .head: "head"
                case .device: "device"
                case .certificate: "certificate"
                case .usedToken: "token"
                case .revokedSubject: "subject"
                case .barredKey: "barred"
                case .service: "service"
                case .federationToken: "federation token"
                case .end: "end"
                }
            if kinds.last != kind { kinds.append(kind) }
        }
        return kinds
    }
}
