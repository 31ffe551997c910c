internal import CLibpq
internal import EventLoop
internal import Glibc
internal import Registry

/// A pipeline of statements on one connection. Each statement is its own transaction, and they are answered in order.
///
/// An unexpected event ends the connection, and the outcome of all statements in progress is then unknown. Statements
/// are never cancelled, because a cancelled commit may be durable.
final class DatabasePipeline: SocketHandler {
    enum Outcome {
        case done(DatabaseResult)
        /// The database reported that nothing was done.
        case refused(DatabaseFault)
        /// The statement may have been done, or may still be.
        case unknown
    }

    private struct Statement {
        let deadline: Instant
        let warnings: Int
        let answer: (Outcome) -> Void
        var result: DatabaseResult?
        var fault: DatabaseFault?
    }

    private var connection: DatabaseConnection?
    private let patience: TimeSpan
    private var statements: [Statement] = []
    private let notified: () -> Void
    private let lost: (String) -> Void

    /// Creates a pipeline.
    ///
    /// - Parameters:
    ///   - patience: The timeout of a statement.
    ///   - notified: Called when the database has notified a change.
    ///   - lost: Called once when the connection has ended, after all statements were answered.
    init?(
        _ connection: DatabaseConnection, loop: Loop, patience: TimeSpan, notified: @escaping () -> Void,
        lost: @escaping (String) -> Void
    ) {
        // This handler closes its own descriptor, and libpq closes the first.
        let descriptor = fcntl(connection.socket, F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else { return nil }
        self.connection = connection
        self.patience = patience
        self.notified = notified
        self.lost = lost
        super.init(loop: loop, socket: Socket(adopting: descriptor))
        wantRead(true)
    }

    var isLost: Bool { connection == nil }

    /// Sends a prepared statement.
    ///
    /// - Parameter answer: Called exactly once.
    func run(_ name: String, _ arguments: [SQLValue], answer: @escaping (Outcome) -> Void) {
        guard let connection else { return answer(.unknown) }
        statements.append(
            Statement(deadline: .now + patience, warnings: connection.warnings, answer: answer))
        do throws(DatabaseFault) {
            try connection.send(prepared: name, arguments)
            wantWrite(try connection.flush())
        } catch {
            return lose("\(error)")
        }
        if statements.count == 1 { setDeadline(statements[0].deadline) }
    }

    override func readable() {
        guard let connection else { return }
        do throws(DatabaseFault) { try connection.consume() } catch { return lose("\(error)") }
        takeAnswers()
        guard let connection = self.connection else { return }
        if connection.takeNotifications() { notified() }
    }

    override func writable() {
        guard let connection else { return }
        do throws(DatabaseFault) {
            // libpq may have to read before it can write.
            try connection.consume()
            wantWrite(try connection.flush())
        } catch {
            return lose("\(error)")
        }
        takeAnswers()
    }

    override func deadlinePassed() {
        guard let first = statements.first else { return }
        if first.deadline <= loop.now {
            lose("no answer within \(patience.nanoseconds / 1_000_000) ms")
        } else {
            setDeadline(first.deadline)
        }
    }

    /// Processes complete results. A statement is done only when the end of its transaction has been reported.
    private func takeAnswers() {
        while !statements.isEmpty, let connection, !connection.isBusy {
            // Nil separates the results of a statement from the end of its transaction.
            guard let result = connection.nextResult() else { continue }
            switch result.status {
            case PGRES_PIPELINE_SYNC: finishFirst(connection)
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK: statements[0].result = result
            default: statements[0].fault = result.fault ?? DatabaseFault("an answer out of order")
            }
        }
        guard connection != nil else { return }
        if let first = statements.first { setDeadline(first.deadline) } else { clearDeadline() }
    }

    private func finishFirst(_ connection: DatabaseConnection) {
        let statement = statements[0]
        // The server reports a cancelled wait for a synchronous standby as done, with a warning. The connection ends in
        // any case, so it does not matter which statement the warning belongs to.
        guard connection.warnings == statement.warnings else { return lose("a commit was answered with a warning") }
        if let fault = statement.fault {
            // Other errors may come from a server that shuts down during a commit.
            guard fault.isPassing || fault.isRefusal else { return lose("\(fault)") }
            statements.removeFirst()
            return statement.answer(.refused(fault))
        }
        guard let result = statement.result else { return lose("a statement without an answer") }
        statements.removeFirst()
        statement.answer(.done(result))
    }

    /// Ends the connection. It does nothing if the connection has ended already.
    func lose(_ reason: String) {
        guard connection != nil else { return }
        close()
        connection = nil
        var open: [Statement] = []
        swap(&open, &statements)
        for statement in open { statement.answer(.unknown) }
        lost(reason)
    }
}
