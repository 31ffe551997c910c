internal import Encoding
internal import EventLoop
internal import Glibc
package import Logging

/// The error log: starts, stops and failures, one line each on standard error.
///
///     {"time":"2026-11-21T07:12:11Z","level":"info","message":"stopped"}
///     2026-11-21T07:12:11Z info stopped
package struct ErrorLog: LogHandler {
    package var metadata: Logger.Metadata = [:]
    package var logLevel: Logger.Level
    let isJSON: Bool
    /// The writer of the lines. Nil if lines are written at once.
    let writer: LogWriter?
    /// Whether lines begin with their priority, which the journal removes.
    let hasPriorities: Bool

    package init(logLevel: Logger.Level, isJSON: Bool, writer: LogWriter?, hasPriorities: Bool) {
        self.logLevel = logLevel
        self.isJSON = isJSON
        self.writer = writer
        self.hasPriorities = hasPriorities
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let line = Self.line(
            event.message.description, event.level, members: event.metadata ?? [:], at: WallClock.seconds,
            isJSON: isJSON, hasPriority: hasPriorities)
        // The caller may end the process with its next statement.
        if event.level == .critical || writer == nil {
            _ = unsafe line.withUnsafeBytes { unsafe write(STDERR_FILENO, $0.baseAddress, $0.count) }
        } else {
            writer?.post(line)
        }
    }

    /// Returns a line.
    ///
    /// - Parameters:
    ///   - members: Members for programs, with names that need no escaping. Text for people has only the message, which
    ///     contains the same facts.
    ///   - seconds: Seconds since 1970.
    static func line(
        _ message: String, _ level: Logger.Level, members: Logger.Metadata = [:], at seconds: Int64, isJSON: Bool,
        hasPriority: Bool = false
    ) -> [UInt8] {
        let time = CalendarTime(seconds: seconds).timestamp
        let priority = hasPriority ? "<\(priority(of: level))>" : ""
        guard isJSON else { return Array("\(priority)\(time)Z \(level.rawValue) \(plain(message))\n".utf8) }
        var text =
            "{\"time\":\"\(time)Z\",\"level\":\"\(level.rawValue)\",\"message\":\(JSONWriter.quoted(plain(message)))"
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            text += ",\"\(name)\":\(JSONWriter.quoted(plain(value.description)))"
        }
        return Array("\(priority)\(text)}\n".utf8)
    }

    /// Returns the number of a level in syslog(3).
    private static func priority(of level: Logger.Level) -> Int {
        switch level {
        case .critical: 2
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        case .debug, .trace: 7
        }
    }

    private static func plain(_ text: String) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { plain.append(scalar.isPlain ? scalar : " ") }
        return String(plain)
    }
}

extension Unicode.Scalar {
    /// Whether it neither ends a line, nor controls a terminal, nor changes the order in which a line is shown.
    var isPlain: Bool {
        switch properties.generalCategory {
        // U+0000-001F, 007F-009F; 2028; 2029; 202A-202E, 2066-2069 and other invisible characters.
        case .control, .lineSeparator, .paragraphSeparator, .format: false
        default: true
        }
    }
}

/// The connection of the process to systemd's journal (systemd.exec(5), `$JOURNAL_STREAM`). A line for the journal may
/// begin with its priority, as in `<3>` (sd-daemon(3)), which the journal removes and stores.
package enum JournalStream {
    /// Whether standard error goes to the journal. The variable alone proves nothing: processes inherit it whose streams
    /// go elsewhere.
    package static var isStandardError: Bool {
        guard let variable = unsafe getenv("JOURNAL_STREAM") else { return false }
        var status = stat()
        guard unsafe fstat(STDERR_FILENO, &status) == 0 else { return false }
        return unsafe String(cString: variable) == "\(status.st_dev):\(status.st_ino)"
    }
}
