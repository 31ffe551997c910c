import Foundation
import GRDB
import Testing
import RegistryMemory
import Vocabulary

@testable import Registry
@testable import RegistrySQLite

@Suite("The store's file")
struct StoreFileTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
    }

    private func mode(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int)
    }

    @Test("a new store's files are readable by their owner alone")
    func newFile() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        for suffix in ["", "-wal", ".lock"] { #expect(try mode(scratch.file() + suffix) == 0o600, "\(suffix)") }
    }

    @Test("synchronous reads back as 2 after creating, opening and reopening")
    func durable() throws {
        var store: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        #expect(store?.synchronous == 2)
        try store?.reopen()
        #expect(store?.synchronous == 2)
        store = nil
        store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(store?.synchronous == 2)
        store = nil
        // The test's own way to less shows that reading back notices.
        var options = StoreOptions()
        options.durability = .normal
        store = try RegistryStore(path: scratch.file(), creating: false, options: options)
        #expect(store?.synchronous == 1)
    }

    @Test("a second opener is refused with the file's path until the first has closed")
    func locked() throws {
        var first: RegistryStore? = try RegistryStore(path: scratch.file(), creating: true)
        let error = #expect(throws: StoreOpenError.self) { try RegistryStore(path: scratch.file(), creating: false) }
        #expect(error == .locked(path: scratch.file()))
        #expect(error?.description.contains(scratch.file()) == true)
        #expect(first?.commit([]) == [])
        first = nil
        _ = try RegistryStore(path: scratch.file(), creating: false)
    }

    @Test("other SQLite connections are locked out")
    func exclusive() throws {
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        #expect(throws: DatabaseError.self) {
            try DatabaseQueue(path: scratch.file()).inDatabase {
                try $0.execute(sql: "UPDATE counter SET highest = 0")
            }
        }
    }

    @Test("a missing file is created only on request, and a refusal leaves none")
    func missing() throws {
        #expect(throws: StoreOpenError.missing(path: scratch.file())) {
            try RegistryStore(path: scratch.file(), creating: false)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.path).isEmpty)
    }

    @Test("an empty file becomes a store on creation and is refused otherwise")
    func empty() throws {
        try Data().write(to: URL(filePath: scratch.file()))
        #expect(throws: StoreOpenError.foreign(path: scratch.file())) {
            try RegistryStore(path: scratch.file(), creating: false)
        }
        let store = try RegistryStore(path: scratch.file(), creating: true)
        try store.populate(1)
        #expect(store.commit(1, 1) == .committed)
    }

    @Test("a file that is no database, or another program's, is refused unchanged")
    func foreign() throws {
        let text = Data(String(repeating: "not a database\n", count: 1_000).utf8)
        try text.write(to: URL(filePath: scratch.file()))
        #expect(throws: StoreOpenError.foreign(path: scratch.file())) {
            try RegistryStore(path: scratch.file(), creating: true)
        }
        #expect(try Data(contentsOf: URL(filePath: scratch.file())) == text)

        let other = scratch.file("other.db")
        let queue = try DatabaseQueue(path: other)
        try queue.inDatabase { try $0.execute(sql: "CREATE TABLE notes (text TEXT)") }
        try queue.close()
        #expect(throws: StoreOpenError.foreign(path: other)) { try RegistryStore(path: other, creating: true) }
        let again = try DatabaseQueue(path: other)
        let tables = try again.inDatabase { try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema") }
        #expect(tables == ["notes"])
    }

    @Test("a store of a later version is refused")
    func newer() throws {
        try RegistryStore(path: scratch.file(), creating: true).populate(1)
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.inDatabase { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('v999')") }
        try queue.close()
        #expect(throws: StoreOpenError.newerSchema(path: scratch.file())) {
            try RegistryStore(path: scratch.file(), creating: false)
        }
    }

    @Test("a damaged file is refused as damaged")
    func corrupted() throws {
        try RegistryStore(path: scratch.file(), creating: true).populate(200)
        let handle = try #require(FileHandle(forUpdatingAtPath: scratch.file()))
        let size = try handle.seekToEnd()
        #expect(size > 20_000)
        // All pages but the first, which holds the schema.
        try handle.seek(toOffset: 4_096)
        try handle.write(contentsOf: Data(repeating: 0xA5, count: Int(size) - 4_096))
        try handle.close()
        let error = #expect(throws: StoreOpenError.self) { try RegistryStore(path: scratch.file(), creating: false) }
        guard case .corrupted(scratch.file(), _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("a row that the schema excludes is refused as damaged")
    func unreadableRow() throws {
        try RegistryStore(path: scratch.file(), creating: true).populate(1)
        let queue = try DatabaseQueue(path: scratch.file())
        try queue.inDatabase { try $0.execute(sql: "UPDATE device SET app = 'x', platform = 'toaster'") }
        try queue.close()
        let store = try RegistryStore(path: scratch.file(), creating: false)
        #expect(throws: StoreError.unavailable) { try store.show(.binding(Fixture.bindingKey(1))) }
        #expect(store.lastFault == "a row of table device cannot be read")
    }

    @Test("a place where no file can be created is refused by name")
    func unwritable() {
        // Not even root creates files in /proc.
        for path in ["/proc/registry.db", scratch.file("absent/registry.db")] {
            let error = #expect(throws: StoreOpenError.self) { try RegistryStore(path: path, creating: true) }
            guard case .failed(path, _) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    @Test("a directory without write permission is refused", .disabled(if: geteuid() == 0, "root writes everywhere"))
    func readOnlyDirectory() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: scratch.path)
        #expect(throws: StoreOpenError.self) { try RegistryStore(path: scratch.file(), creating: true) }
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: scratch.path)
    }
}
