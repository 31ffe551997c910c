internal import CLibpq
internal import EventLoop
internal import Glibc
internal import Registry

/// A connection to a database. It owns the `PGconn` and is used by one thread at a time. After an unexpected event it
/// is closed.
final class DatabaseConnection {
    private let connection: OpaquePointer
    /// The number of received warnings. The server may report a commit as done with a warning that it is not.
    private(set) var warnings = 0
    private var prepared: [String: String] = [:]

    /// Connects to the first host that accepts writes.
    ///
    /// Each host has its own timeout. libpq would spend all time on a silent host and never try the next.
    static func open(_ settings: PostgreSQLSettings) throws(DatabaseFault) -> DatabaseConnection {
        var reasons: [String] = []
        for host in settings.hosts {
            do throws(DatabaseFault) { return try DatabaseConnection(host, settings) } catch {
                reasons.append(error.description)
            }
        }
        throw DatabaseFault(reasons.joined(separator: "; "))
    }

    /// Connects to a host. The timeout does not cover name resolution.
    private init(_ host: String, _ settings: PostgreSQLSettings) throws(DatabaseFault) {
        let parameters = settings.parameters(of: host)
        let keywords = CStrings(parameters.map(\.0))
        let values = CStrings(parameters.map(\.1))
        guard let connection = PQconnectStartParams(keywords.pointers, values.pointers, 0) else {
            throw DatabaseFault("out of memory: libpq")
        }
        self.connection = connection
        // The context is this object, which owns the connection and outlives it.
        PQsetNoticeReceiver(connection, noticeCame, Unmanaged.passUnretained(self).toOpaque())
        do throws(DatabaseFault) { try connect(until: .now + settings.limits.connecting) } catch {
            throw DatabaseFault("\(host): \(error)")
        }
        guard PQsetnonblocking(connection, 1) == 0 else { throw error() }
        // Details quote values, and they may be part of the message of a later connection failure.
        PQsetErrorVerbosity(connection, PQERRORS_TERSE)
    }

    deinit {
        PQfinish(connection)
    }

    private func connect(until deadline: Instant) throws(DatabaseFault) {
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            guard state != PGRES_POLLING_FAILED, PQstatus(connection) != CONNECTION_BAD else { throw error() }
            guard wait(for: state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until: deadline) else {
                throw DatabaseFault("no connection in time")
            }
            state = PQconnectPoll(connection)
        }
    }

    /// Waits for events on the socket.
    ///
    /// - Returns: false if the deadline has passed.
    private func wait(for events: Int32, until deadline: Instant) -> Bool {
        while true {
            let left = (deadline - .now).nanoseconds / 1_000_000
            guard left > 0 else { return false }
            var wanted = pollfd(fd: PQsocket(connection), events: Int16(events), revents: 0)
            if poll(&wanted, 1, Int32(clamping: left)) > 0 { return true }
        }
    }

    /// The error of libpq. It never contains a password.
    func error() -> DatabaseFault {
        let message = String(cString: PQerrorMessage(connection))
        let lines = message.split(whereSeparator: \.isNewline)
        return DatabaseFault(lines.isEmpty ? "the connection failed" : lines.joined(separator: "; "))
    }

    fileprivate func warn() { warnings += 1 }

    var socket: Int32 { PQsocket(connection) }

    /// Returns a parameter of the server, such as "server_version".
    func report(_ name: String) -> String? { PQparameterStatus(connection, name).map { String(cString: $0) } }

    // MARK: - Non-blocking operations

    func enterPipeline() throws(DatabaseFault) {
        guard PQenterPipelineMode(connection) == 1 else { throw error() }
    }

    /// Sends a prepared statement and the end of its transaction.
    func send(prepared name: String, _ arguments: [SQLValue]) throws(DatabaseFault) {
        try send(name, arguments)
        guard PQpipelineSync(connection) == 1 else { throw error() }
    }

    /// Sends buffered data.
    ///
    /// - Returns: Whether some data remains.
    func flush() throws(DatabaseFault) -> Bool {
        let left = PQflush(connection)
        guard left >= 0 else { throw error() }
        return left == 1
    }

    func consume() throws(DatabaseFault) {
        guard PQconsumeInput(connection) == 1 else { throw error() }
    }

    /// Returns the next received result. Nil if there is none, or at the end of a statement's results.
    func nextResult() -> DatabaseResult? {
        PQisBusy(connection) == 1 ? nil : PQgetResult(connection).map(DatabaseResult.init(adopting:))
    }

    var isBusy: Bool { PQisBusy(connection) == 1 }

    /// Discards received notifications.
    ///
    /// - Returns: Whether there were any.
    func takeNotifications() -> Bool {
        var found = false
        while let notification = PQnotifies(connection) {
            PQfreemem(notification)
            found = true
        }
        return found
    }

    // MARK: - Blocking operations

    /// Prepares a statement.
    func prepare(_ name: String, _ sql: String, until deadline: Instant) throws(DatabaseFault) {
        guard PQsendPrepare(connection, name, sql, 0, nil) == 1 else { throw error() }
        _ = try answer(until: deadline)
    }

    /// Runs statements without parameters.
    func execute(_ sql: String, until deadline: Instant) throws(DatabaseFault) -> DatabaseResult {
        guard PQsendQuery(connection, sql) == 1 else { throw error() }
        return try answer(until: deadline)
    }

    /// Runs a statement and returns its rows. The first run prepares it.
    func run(
        _ sql: String, _ arguments: [SQLValue], until deadline: Instant
    ) throws(DatabaseFault) -> DatabaseResult {
        try send(try preparedName(of: sql, until: deadline), arguments)
        return try answer(until: deadline)
    }

    /// Runs statements in one round trip until one fails. Waits at most `patience` for each.
    ///
    /// - Returns: The results. The last one may be that of a failed statement.
    func run(_ statements: [SQLStatement], patience: TimeSpan) throws(DatabaseFault) -> [DatabaseResult] {
        // All statements are prepared first, because the first of them may wait for a lock.
        let names = try prepare(statements, patience: patience)
        guard PQenterPipelineMode(connection) == 1 else { throw error() }
        for (name, statement) in zip(names, statements) { try send(name, statement.arguments) }
        guard PQpipelineSync(connection) == 1 else { throw error() }
        try flushAll(until: .now + patience)
        var results: [DatabaseResult] = []
        while true {
            // A null pointer separates the results of statements.
            guard let result = try awaitResult(until: .now + patience) else {
                guard PQstatus(connection) == CONNECTION_OK else { throw error() }
                continue
            }
            if result.status == PGRES_PIPELINE_SYNC { break }
            // Statements after a failed one are not run.
            if result.status != PGRES_PIPELINE_ABORTED { results.append(result) }
        }
        guard PQexitPipelineMode(connection) == 1 else { throw error() }
        guard results.count == statements.count || results.last?.fault != nil else {
            throw DatabaseFault("\(results.count) answers to \(statements.count) statements")
        }
        return results
    }

    /// Prepares statements that are not prepared yet.
    ///
    /// - Returns: Their names.
    @discardableResult
    func prepare(_ statements: [SQLStatement], patience: TimeSpan) throws(DatabaseFault) -> [String] {
        var names: [String] = []
        for statement in statements { names.append(try preparedName(of: statement.sql, until: .now + patience)) }
        return names
    }

    /// Returns the name of a prepared statement, and prepares it the first time.
    private func preparedName(of sql: String, until deadline: Instant) throws(DatabaseFault) -> String {
        if let known = prepared[sql] { return known }
        let name = "s\(prepared.count)"
        try prepare(name, sql, until: deadline)
        prepared[sql] = name
        return name
    }

    private func send(_ name: String, _ arguments: [SQLValue]) throws(DatabaseFault) {
        let sent = Self.encoding(arguments) { values, lengths, formats in
            PQsendQueryPrepared(connection, name, Int32(arguments.count), values, lengths, formats, 1)
        }
        guard sent == 1 else { throw error() }
    }

    /// Waits for the last result of the sent statement.
    private func answer(until deadline: Instant) throws(DatabaseFault) -> DatabaseResult {
        try flushAll(until: deadline)
        var last: DatabaseResult?
        // Several statements in one query end with the first that fails.
        while let result = try awaitResult(until: deadline) { last = result }
        guard let last else { throw error() }
        if let fault = last.fault { throw fault }
        return last
    }

    private func flushAll(until deadline: Instant) throws(DatabaseFault) {
        while try flush() {
            guard wait(for: POLLIN | POLLOUT, until: deadline) else { throw .noAnswer }
            try consume()
        }
    }

    private func awaitResult(until deadline: Instant) throws(DatabaseFault) -> DatabaseResult? {
        while PQisBusy(connection) == 1 {
            guard wait(for: POLLIN, until: deadline) else { throw .noAnswer }
            try consume()
        }
        return PQgetResult(connection).map(DatabaseResult.init(adopting:))
    }

    /// Encodes arguments. The pointers are valid until `body` returns, and libpq copies the data before that.
    private static func encoding(
        _ arguments: [SQLValue],
        _ body: ([UnsafePointer<CChar>?], [Int32], [Int32]) -> Int32
    ) -> Int32 {
        let encoded = arguments.map(\.encoded)
        // All values share one buffer and so one pointer. The extra byte keeps an empty value distinct from NULL.
        let bytes = Array(encoded.map { $0 ?? [] }.joined()) + [0]
        return bytes.withUnsafeBytes { buffer in
            var values: [UnsafePointer<CChar>?] = []
            var lengths: [Int32] = []
            var offset = 0
            for value in encoded {
                values.append(
                    value == nil
                        ? nil
                        : buffer.baseAddress.map { ($0 + offset).assumingMemoryBound(to: CChar.self) })
                lengths.append(Int32(value?.count ?? 0))
                offset += value?.count ?? 0
            }
            return body(values, lengths, arguments.map { _ in 1 })
        }
    }
}

/// Receives a notice. The context is the connection, see `init`.
private nonisolated func noticeCame(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let context else { preconditionFailure("a notice without its connection") }
    // The field V is not translated, but older servers lack it. Everything above a notice counts as a warning.
    let severity = DatabaseResult.field("V", of: result) ?? DatabaseResult.field("S", of: result) ?? ""
    if !["NOTICE", "INFO", "DEBUG", "LOG"].contains(severity) {
        Unmanaged<DatabaseConnection>.fromOpaque(context).takeUnretainedValue().warn()
    }
}

/// An array of C strings that ends with a null pointer. The strings live as long as this object.
private final class CStrings {
    let pointers: [UnsafePointer<CChar>?]

    init(_ strings: [String]) {
        pointers = strings.map { UnsafePointer(strdup($0)) } + [nil]
    }

    deinit {
        for pointer in pointers { free(UnsafeMutablePointer(mutating: pointer)) }
    }
}
