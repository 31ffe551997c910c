internal import EventLoop
internal import Registry
internal import RevocationJournal
internal import Synchronization
internal import Vocabulary

/// The thread for blocking operations on the database. It opens connections and performs the operations of operators
/// and enrolment in order. Counters and look-ups do not pass through it.
final class DatabaseThread: Sendable {
    enum Order: Sendable {
        /// Connect, and write the values that are spent in memory.
        case open(owed: [DeviceID: [UInt32]])
        case perform(RegistryCommand, at: Int64, ticket: Int)
        /// Expire a slice, and update the witness.
        case expire(at: Int64, StoreProgress)
        /// Add revocations and ends of other gateways to the journal.
        case attest([WitnessEntry])
        /// Mark the final progress of the database.
        case mark(StoreProgress)
        /// Close the connection, which has failed.
        case abandon
        case stop
    }

    enum Report: Sendable {
        case opened(DatabaseAccess)
        case notOpened(String)
        case performed(ticket: Int, DatabaseReply)
        /// A slice was expired. `isLeft` says whether there may be more.
        case expired(isLeft: Bool)
        /// The expiry failed. The text says why the connection is unusable. Nil if it is usable.
        case notExpired(String?)
    }

    private let orders: Mailbox<Order>
    private let thread: LoopThread

    /// Starts the thread.
    ///
    /// - Parameter access: The connections that are open already.
    init(
        _ settings: PostgreSQLSettings, reports: Mailbox<Report>, access: DatabaseAccess, witness: Witness?
    ) throws(EventLoopError) {
        // The store's thread bounds the number of orders.
        let orders = try Mailbox<Order>(limit: .max)
        self.orders = orders
        thread = try LoopThread(name: "database") {
            // Without a loop nothing is answered, and the store's thread gives up its requests.
            guard let loop = try? Loop() else { return }
            let runner = OperationRunner(
                settings, database: access.takeDatabase(), witness: witness, reports: reports, loop: loop)
            let receiver = MailboxReceiver(loop: loop, mailbox: orders) { runner.follow($0) }
            withExtendedLifetime(receiver) { loop.run() }
        }
    }

    func order(_ order: Order) { orders.post(order) }

    /// Waits for the end of the thread, after `stop` was ordered.
    func join() { thread.join() }
}

/// The result of an operation.
struct DatabaseReply: Sendable {
    let result: Result<RegistryReply, StoreError>
    /// The number of the change that other gateways read. Nil if there is none.
    var change: Int64?
    /// The reason why the connection is unusable. Nil if it is usable.
    var fault: String?
    /// A counter value that may have been spent.
    var owed: (device: DeviceID, counter: UInt32)?
}

/// The connections of a database, which are opened on one thread and used on others. The database thread uses the
/// blocking side, and the store's thread the connection for counters.
final class DatabaseAccess: Sendable {
    let identity: StoreIdentity
    let kind: DatabaseKind
    /// The number of the latest change in the journal.
    let position: Int64
    /// The progress of the database when it was opened.
    let progress: StoreProgress
    /// Whether the tables were created when it was opened.
    let isMade: Bool
    private let database: Mutex<RegistryDatabase?>
    private let connection: Mutex<DatabaseConnection?>

    /// Opens both connections to the same database. Blocks.
    ///
    /// - Parameter making: Whether to create missing tables.
    init(
        _ settings: PostgreSQLSettings, _ witness: Witness?, making: Bool, owed: [DeviceID: [UInt32]] = [:]
    ) throws(StoreOpenError) {
        do {
            let database = try RegistryDatabase(settings, witness, making: making)
            isMade = database.isMade
            if let secret = settings.secret { try database.confirm(secret) }
            progress = database.initialProgress
            try database.pay(owed)
            identity = database.identity
            kind = database.kind
            let (connection, position) = try CounterStatements.connect(
                settings, to: identity, kind, mark: database.mark)
            self.position = min(position, progress.standing)
            self.database = Mutex(database)
            self.connection = Mutex(connection)
        } catch let error as StoreOpenError {
            throw error
        } catch {
            throw .failed(path: settings.name, detail: "\(DatabaseFailure(error))")
        }
    }

    fileprivate func takeDatabase() -> sending RegistryDatabase? { database.withLock { $0.take() } }
    func takeConnection() -> sending DatabaseConnection? { connection.withLock { $0.take() } }
}

/// The part of `DatabaseThread` that runs on the thread.
private final class OperationRunner {
    private let settings: PostgreSQLSettings
    private var database: RegistryDatabase?
    private let witness: Witness?
    /// The number of slices until people who were barred at other gateways are read. No change of a device reports
    /// them.
    private var slicesToSubjects = 0
    private let reports: Mailbox<DatabaseThread.Report>
    private let loop: Loop

    /// The number of slices between two reads. Slices come each half second or faster.
    private static let subjectPause = 20

    init(
        _ settings: PostgreSQLSettings, database: RegistryDatabase?, witness: Witness?,
        reports: Mailbox<DatabaseThread.Report>, loop: Loop
    ) {
        self.settings = settings
        self.database = database
        self.witness = witness
        self.reports = reports
        self.loop = loop
    }

    func follow(_ order: DatabaseThread.Order) {
        switch order {
        case .open(let owed): open(owed)
        case .perform(let command, let time, let ticket):
            reports.post(.performed(ticket: ticket, perform(command, time)))
        case .expire(let time, let progress):
            expire(at: time)
            witness?.tick(progress)
        case .mark(let progress): witness?.mark(progress, isSynced: true)
        case .attest(let entries): witness?.append(entries)
        case .abandon: database = nil
        case .stop:
            database = nil
            loop.stop()
        }
    }

    private func open(_ owed: [DeviceID: [UInt32]]) {
        database = nil
        do throws(StoreOpenError) {
            // A gateway that has lost its database must not create a new one.
            let access = try DatabaseAccess(settings, witness, making: false, owed: owed)
            database = access.takeDatabase()
            reports.post(.opened(access))
        } catch {
            reports.post(.notOpened(error.description))
        }
    }

    private func perform(_ command: RegistryCommand, _ time: Int64) -> DatabaseReply {
        guard let database else { return DatabaseReply(result: .failure(.unavailable)) }
        let before = database.lastChange
        var spent: DeviceID?
        do {
            let reply = try database.perform(command, at: time) { spent = $0 }
            let change = database.lastChange
            // Entries must be in the journal before the command is answered.
            witness?.append(command.witnessEntries(for: reply, at: time))
            return DatabaseReply(result: .success(reply), change: change > before ? change : nil)
        } catch let refusal as StoreError {
            return DatabaseReply(result: .failure(refusal))
        } catch {
            let trouble = DatabaseFailure(error)
            var answer = DatabaseReply(
                result: .failure(.unavailable), fault: trouble.endsConnection ? "\(trouble)" : nil)
            // A COMMIT that failed may still be durable.
            if let spent, case .bindKey(let request) = command { answer.owed = (spent, request.counter) }
            if trouble.endsConnection { self.database = nil }
            return answer
        }
    }

    private func attestSubjects(_ database: RegistryDatabase) throws {
        guard let witness else { return }
        slicesToSubjects -= 1
        guard slicesToSubjects <= 0 else { return }
        slicesToSubjects = Self.subjectPause
        witness.append(try DatabaseReader(database).barredSubjects())
    }

    private func expire(at time: Int64) {
        guard let database else {
            reports.post(.notExpired(nil))
            return
        }
        do {
            let isLeft = try DatabaseUpkeep(database).expire(at: time)
            try attestSubjects(database)
            reports.post(.expired(isLeft: isLeft))
        } catch {
            let trouble = DatabaseFailure(error)
            if trouble.endsConnection { self.database = nil }
            reports.post(.notExpired(trouble.endsConnection ? "\(trouble)" : nil))
        }
    }
}

/// An error of any kind with a text for logs.
struct DatabaseFailure: Error, CustomStringConvertible {
    let description: String
    /// Whether the connection is unusable.
    let endsConnection: Bool

    init(_ error: any Error) {
        switch error {
        case let fault as DatabaseFault:
            description = fault.description
            endsConnection = !fault.isRefusal && !fault.isPassing
        case let unknown as RegistryDatabase.UnknownOutcome:
            description = unknown.detail
            endsConnection = true
        case let error as UnreadableRow:
            description = "a row of table \(error.table) cannot be read"
            endsConnection = true
        default:
            description = String(describing: error)
            endsConnection = true
        }
    }
}
