internal import EventLoop
internal import Glibc
package import Logging

/// The error log: starts, stops, failures. One line each on standard error, apart from the access log.
///
///     {"time":"2026-11-21T07:12:11Z","level":"info","message":"stopped"}
///     2026-11-21T07:12:11Z info stopped
package struct ErrorLog: LogHandler {
    package var metadata: Logger.Metadata = [:]
    package var logLevel: Logger.Level
    let isJSON: Bool
    /// Nil to write at once.
    let writer: LogWriter?
    /// Lines begin with their priority, which their reader takes off.
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
            _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
        } else {
            writer?.post(line)
        }
    }

    /// - Parameters:
    ///   - members: for programs, by names that need no escaping; people read all of it in the message.
    ///   - seconds: since 1970.
    static func line(
        _ message: String, _ level: Logger.Level, members: Logger.Metadata = [:], at seconds: Int64, isJSON: Bool,
        hasPriority: Bool = false
    ) -> [UInt8] {
        let time = CivilTime(seconds: seconds).timestamp
        let priority = hasPriority ? "<\(priority(of: level))>" : ""
        guard isJSON else { return Array("\(priority)\(time)Z \(level.rawValue) \(plain(message))\n".utf8) }
        var text = "{\"time\":\"\(time)Z\",\"level\":\"\(level.rawValue)\",\"message\":\(quote(message))"
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            text += ",\"\(name)\":\(quote(value.description))"
        }
        return Array("\(priority)\(text)}\n".utf8)
    }

    /// As syslog(3) numbers them.
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

    private static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in plain(text).unicodeScalars {
            if scalar == "\"" || scalar == "\\" { quoted.unicodeScalars.append("\\") }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "\""
    }

    private static func plain(_ text: String) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { plain.append(scalar.isPlain ? scalar : " ") }
        return String(plain)
    }
}

extension Unicode.Scalar {
    /// Whether it neither ends a line, nor drives a terminal, nor changes the order in which a line is shown.
    var isPlain: Bool {
        switch properties.generalCategory {
        // U+0000-001F, 007F-009F; 2028; 2029; 202A-202E, 2066-2069 and what else cannot be seen.
        case .control, .lineSeparator, .paragraphSeparator, .format: false
        default: true
        }
    }
}
