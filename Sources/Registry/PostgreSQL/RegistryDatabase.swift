internal import EventLoop
internal import Glibc
internal import Vocabulary

/// The registry in PostgreSQL, for whoever may wait: what operators and enrolment do, in transactions of their own.
///
/// Used by one thread at a time. Counters take another connection.
final class RegistryDatabase {
    let settings: PostgreSQLSettings
    let kind: DatabaseKind
    let connection: DatabaseConnection
    private(set) var identity = StoreIdentity(store: RandomID(), epoch: RandomID())
    /// Which database this is.
    private(set) var mark = ""
    /// The number of the latest change that the transaction under way has noted.
    private var noted: Int64?
    /// That of the last transaction that noted any.
    private(set) var lastChange: Int64 = 0

    /// Connects, and brings the tables up to date. Waits.
    init(_ settings: PostgreSQLSettings) throws {
        self.settings = settings
        connection = try DatabaseConnection.open(settings)
        let answer = try connection.run("SELECT version()", [], until: .now + settings.limits.answering)
        kind = DatabaseKind(version: answer.text(0, 0))
        try DatabaseDurability(self).check()
        try PostgreSQLSchema.migrate(self)
        identity = try readIdentity()
        try renewEpochIfMoved()
    }

    private func readIdentity() throws -> StoreIdentity {
        let row = try run("SELECT id, epoch FROM store")
        guard row.rows == 1, let store = RandomID(row.bytes(0, 0)), let epoch = RandomID(row.bytes(0, 1)) else {
            throw UnreadableRow(table: "store")
        }
        return StoreIdentity(store: store, epoch: epoch)
    }

    /// Draws a fresh epoch unless the database is where it was when the current one was drawn.
    private func renewEpochIfMoved() throws {
        mark = try DatabaseMark.read(kind) { try run($0) }
        let mark = mark
        // Remembered only when the transaction has succeeded.
        identity = try transaction(.changing) {
            let row = try run("SELECT mark FROM store")
            guard row.rows == 1 else { throw UnreadableRow(table: "store") }
            if row.optionalText(0, 0) == mark { return try readIdentity() }
            // The very first mark goes with the epoch that the store was made with.
            if !row.isNull(0, 0) { try writeEpoch(RandomID()) }
            _ = try run("UPDATE store SET mark = $1", [.text(mark)])
            return try readIdentity()
        }
    }

    private func writeEpoch(_ epoch: RandomID) throws {
        // Nonces are bound to the epoch too: none of those removed from the list can come back.
        _ = try run("UPDATE store SET epoch = $1, nonces_removed = 0", [.bytes(epoch.bytes)])
    }

    func renewEpoch() throws -> StoreIdentity {
        let epoch = RandomID()
        try transaction(.changing) { try writeEpoch(epoch) }
        identity = StoreIdentity(store: identity.store, epoch: epoch)
        return identity
    }

    // MARK: - Statements

    func run(_ sql: String, _ arguments: [DatabaseValue] = []) throws(DatabaseFault) -> DatabaseResult {
        try connection.run(sql, arguments, until: .now + settings.limits.answering)
    }

    func execute(_ sql: String) throws(DatabaseFault) -> DatabaseResult {
        try connection.execute(sql, until: .now + settings.limits.answering)
    }

    // MARK: - Transactions

    enum Purpose {
        case reading
        /// Changes devices, and so one after the other: what has been looked at does not change until it is decided.
        case changing
        /// The same before there are tables, or where order does not matter.
        case unordered
    }

    /// The database may or may not have done it.
    struct Unknown: Error {
        let detail: String
    }

    /// Runs `body` in one transaction, durable when this returns, undone when it throws; unknown if it throws `Unknown`.
    ///
    /// What fails because of others is tried again from the beginning, for a while.
    func transaction<Result>(_ purpose: Purpose, _ body: () throws -> Result) throws -> Result {
        let deadline = Instant.now + settings.limits.queueing
        var attempt: UInt32 = 0
        while true {
            do {
                return try tryTransaction(purpose, body)
            } catch let fault as DatabaseFault where fault.isPassing && Instant.now < deadline {
                attempt += 1
                usleep(UInt32.random(in: 500...(2_000 * min(attempt, 20))))
            }
        }
    }

    private func tryTransaction<Result>(_ purpose: Purpose, _ body: () throws -> Result) throws -> Result {
        noted = nil
        _ = try execute(
            purpose == .reading
                ? "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" : "BEGIN ISOLATION LEVEL SERIALIZABLE")
        let result: Result
        do {
            // Before the first look, which would otherwise be at what was there before the wait.
            if purpose == .changing, kind.locksTables { _ = try execute("LOCK TABLE feed IN EXCLUSIVE MODE") }
            result = try body()
            if noted != nil, kind.notifies { _ = try execute("NOTIFY attestgate") }
        } catch {
            if let fault = error as? DatabaseFault, fault.state.isEmpty { throw error }
            _ = try execute("ROLLBACK")
            throw error
        }
        try commit()
        if let noted { lastChange = noted }
        return result
    }

    private func commit() throws {
        let warnings = connection.warnings
        let answer: DatabaseResult
        do {
            answer = try execute("COMMIT")
        } catch {
            throw error.isPassing ? error : Unknown(detail: "COMMIT: \(error)")
        }
        // A cancelled wait for a synchronous standby is told as done, with a warning.
        guard answer.tag == "COMMIT", connection.warnings == warnings else {
            throw Unknown(detail: "COMMIT was answered with \(answer.tag) and a warning")
        }
    }

    /// Tells every gateway that the device has changed. - Parameter ended: the binding that has ended, if one has.
    func note(_ device: DeviceID, ended: KeyID? = nil, at time: Int64) throws {
        let row = try run("UPDATE feed SET last = last + 1 RETURNING last")
        let number = try row.integer(0, 0)
        _ = try run(
            "INSERT INTO change (seq, device, ended, changed_at) VALUES ($1, $2, $3, $4)",
            [.integer(number), .device(device), .bytes(ended?.bytes), .integer(time)])
        noted = number
    }

    /// Whether the device and its bindings are good has changed: counters that were planned by what it was are decided anew.
    func changeStanding(of device: DeviceID) throws {
        _ = try run("UPDATE counter SET standing = standing + 1 WHERE device = $1", [.device(device)])
    }
}
