import EventLoop
import Foundation
import Synchronization
import Testing
import Vocabulary

@testable import Registry
@testable import RegistryPostgreSQL
@testable import RegistrySQLite
@testable import RevocationJournal

/// A PostgreSQL server for the tests of this process, on a Unix socket in a directory of its own. It ends when this
/// process does, because the shell that starts it waits for the end of its input.
final class PostgreSQLServer: Sendable {
    /// Nil where there is no PostgreSQL, or it cannot be run as anybody but root; said once.
    static let shared: PostgreSQLServer? = {
        do { return try PostgreSQLServer() } catch {
            print("tests of the PostgreSQL store are skipped: \(error)")
            return nil
        }
    }()

    struct Unusable: Error, CustomStringConvertible {
        let description: String
    }

    let directory: String
    private let input: Pipe
    private let databases = Atomic<Int>(0)

    private init() throws {
        guard let binaries = Self.binaries() else {
            throw Unusable(description: "there is no /usr/lib/postgresql/*/bin/initdb")
        }
        let isRoot = geteuid() == 0
        // Where the server's user may remove it; and a socket's path is short.
        let made = "/tmp/attestgate-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: made, withIntermediateDirectories: true)
        directory = made
        if isRoot {
            // PostgreSQL refuses to run as root.
            guard let user = getpwnam("postgres") else { throw Unusable(description: "there is no user postgres") }
            chown(made, user.pointee.pw_uid, user.pointee.pw_gid)
        }
        let script = """
            set -e
            cd "$1"
            "$2/initdb" -D data --auth=trust --username=root --no-sync >initdb.log 2>&1
            "$2/postgres" -D data -k "$1" -c listen_addresses= -c max_connections=300 >postgres.log 2>&1 &
            server=$!
            # Until the process that started this is gone.
            read -r _ || true
            # At once: what it would write down first is removed, and the tests' end would wait for it.
            kill -QUIT $server
            wait $server || true
            rm -rf "$1"
            """
        let process = Process()
        let shell = ["/bin/sh", "-c", script, "sh", made, binaries]
        let command = isRoot ? ["/usr/sbin/runuser", "-u", "postgres", "--"] + shell : shell
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        input = Pipe()
        process.standardInput = input
        try process.run()
        try awaitStart()
        try execute("CREATE ROLE attestgate LOGIN")
    }

    private static func binaries() -> String? {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.sorted { ($0 as NSString).integerValue > ($1 as NSString).integerValue }
            .map { "\(root)/\($0)/bin" }.first { FileManager.default.isExecutableFile(atPath: "\($0)/initdb") }
    }

    private func awaitStart() throws {
        let deadline = Instant.now + .seconds(60)
        while true {
            do {
                _ = try execute("SELECT 1")
                return
            } catch {
                guard Instant.now < deadline else { throw Unusable(description: "it does not start: \(error)") }
                usleep(50_000)
            }
        }
    }

    /// Connects as the superuser.
    func connect(to database: String = "postgres") throws -> DatabaseConnection {
        var settings = settings(database, user: "root")
        // It may have to wait for what a test holds up.
        settings.limits.statement = .seconds(60)
        return try DatabaseConnection.open(settings)
    }

    @discardableResult
    func execute(_ sql: String, in database: String = "postgres") throws -> DatabaseResult {
        try connect(to: database).execute(sql, until: .now + .seconds(30))
    }

    func settings(_ database: String, user: String = "attestgate") -> PostgreSQLSettings {
        PostgreSQLSettings(
            hosts: [directory], port: 5432, database: database, user: user, security: .none)
    }

    /// An empty database, whose owner the gateway is.
    func makeDatabase() throws -> String {
        let name = "test\(databases.add(1, ordering: .relaxed).newValue)"
        try execute("CREATE DATABASE \(name) OWNER attestgate")
        return name
    }
}

/// A database of its own. Refuses by a trigger, which lies in the database.
final class PostgreSQLPlace: StorePlace {
    let server: PostgreSQLServer
    let database: String

    init() throws {
        server = try #require(PostgreSQLServer.shared)
        database = try server.makeDatabase()
    }

    func open() throws -> any StoreBackend { try open(witness: nil) }

    func open(witness: WitnessSettings?) throws -> any StoreBackend {
        var settings = server.settings(database)
        settings.witness = witness
        return try PostgreSQLStore(settings)
    }

    func openAtRest() throws -> any RegistryAtRest {
        // As a gateway has left it.
        _ = try RegistryDatabase(atRest: server.settings(database), making: true, isLoading: false)
        return try DatabaseAtRest(server.settings(database), isLoading: false)
    }

    func execute(_ sql: String) throws -> DatabaseResult {
        try server.execute("SET search_path = attestgate; \(sql)", in: database)
    }

    func refuseTokens(until end: Int64) throws {
        _ = try RegistryDatabase(atRest: server.settings(database), making: true, isLoading: false)
        _ = try execute("UPDATE store SET tokens_removed = \(end)")
    }

    func confirm(_ secret: SecretClaim) throws {
        var settings = server.settings(database)
        settings.secret = secret
        _ = try AskedStore(try PostgreSQLStore(settings))
    }

    func openForLoading() throws -> any RegistryAtRest {
        try DatabaseAtRest(server.settings(database), isLoading: true)
    }

    func refuseCounters(of backend: any StoreBackend) throws {
        _ = try execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused by a test''; END';
            CREATE TRIGGER refuse BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
    }

    func takeCounters(of backend: any StoreBackend) throws {
        _ = try execute("DROP TRIGGER refuse ON counter; DROP FUNCTION refuse")
    }

    func bar(_ key: KeyID, _ kind: BarredKeyKind) throws {
        let digits = key.bytes.map { String(format: "%02x", $0) }.joined()
        _ = try execute(
            "INSERT INTO barred_key (key, kind, barred_at) VALUES ('\\x\(digits)', '\(kind.rawValue)', 900)")
    }
}
