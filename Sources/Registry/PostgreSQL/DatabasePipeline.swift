internal import CLibpq
internal import EventLoop
internal import Glibc

/// Statements under way on one connection, each a transaction of its own, answered in their order.
///
/// Whatever is not expected ends the connection, and with it everything under way, of which nobody knows then what became. No
/// statement is ever cancelled: a cancelled commit may be durable all the same.
final class DatabasePipeline: SocketHandler {
    enum Outcome {
        case done(DatabaseResult)
        /// The database has said that nothing was done, and why.
        case refused(DatabaseFault)
        /// It may have been done, or may yet be.
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

    /// - Parameters:
    ///   - patience: how long a statement may take.
    ///   - notified: called when the database has notified a change.
    ///   - lost: called once, after all that was under way has been answered.
    init?(
        _ connection: DatabaseConnection, loop: Loop, patience: TimeSpan, notified: @escaping () -> Void,
        lost: @escaping (String) -> Void
    ) {
        // A second descriptor: this handler closes its own, libpq the first.
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

    /// Sends a statement that was prepared. - Parameter answer: called once, in any case.
    func run(_ name: String, _ arguments: [DatabaseValue], answer: @escaping (Outcome) -> Void) {
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

    /// What has been answered in full. A statement is done when the end of its transaction has been answered, not before.
    private func takeAnswers() {
        while !statements.isEmpty, let connection, !connection.isBusy {
            // Nothing: the results of one statement have ended, the end of its transaction follows.
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
        // The server reports a cancelled wait for a synchronous standby as done, with a warning. It does not matter
        // which statement under way the warning belongs to: it ends all of them.
        guard connection.warnings == statement.warnings else { return lose("a commit was answered with a warning") }
        if let fault = statement.fault {
            // Anything else may come from a server that is going down, in the middle of a commit.
            guard fault.isPassing || fault.isRefusal else { return lose("\(fault)") }
            statements.removeFirst()
            return statement.answer(.refused(fault))
        }
        guard let result = statement.result else { return lose("a statement without an answer") }
        statements.removeFirst()
        statement.answer(.done(result))
    }

    /// Ends the connection. Harmless when done already.
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
