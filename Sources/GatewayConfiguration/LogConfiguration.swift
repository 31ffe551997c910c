/// The contents and the destinations of the logs.
public struct LogConfiguration: Equatable, Sendable {
    public let access: Access
    /// The format of both logs.
    public let format: Format
    /// The personal fields of clients that the access log contains. No field twice.
    public let fields: [Field]
    /// The sampling of accepted requests: one in this many is logged.
    public let sample: Int
    /// The maximum number of lines about refusals, per second and worker.
    public let refusalsPerSecond: Int
    /// The least severe level of the error log.
    public let level: Level

    /// The destination of the access log, which has one line for each request.
    public enum Access: Equatable, Sendable {
        case standardOutput
        case off
        /// A file that is appended to, and created if it does not exist.
        case file(String)
    }

    public enum Format: String, CaseIterable, Sendable {
        case json
        /// A format for people at a terminal.
        case console
    }

    public enum Field: String, CaseIterable, Sendable {
        case path
        case query
        case clientAddress = "client_address"
        case userAgent = "user_agent"
    }

    public enum Level: String, CaseIterable, Sendable {
        case error
        case warning
        case notice
        case info
        case debug
    }
}

extension LogConfiguration {
    enum Keys {
        static let access = Key(
            "access", .access, whenMissing: .means("stdout"),
            "Where the access log is written: one line for each request.")

        static let format = Key(
            "format", .choice as Kind<Format>, whenMissing: .means("json"), "The format of both logs.")
        static let fields = Key(
            "fields", .distinct(.choice as Kind<Field>, minimum: 0), whenMissing: .means("[]"),
            "Request data to log although it can identify a patient.")
        static let sample = Key(
            "sample", .integer(1...1_000_000), whenMissing: .means("1"),
            "One in this number of requests that are not denied is logged.")
        static let refusalsPerSecond = Key(
            "refusals_per_second", .integer(1...1_000_000), unit: "lines per second and worker",
            whenMissing: .means("1000"), "The maximum rate of logged denials; the others are counted.")
        static let level = Key(
            "level", .choice as Kind<Level>, whenMissing: .means("info"),
            "The lowest level of events that are logged to standard error.")

        static let section = Section(
            path: "log",
            settings: [
                access.setting, format.setting, fields.setting, sample.setting, refusalsPerSecond.setting,
                level.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let access = reader.read(Keys.access)
        let format = reader.read(Keys.format)
        let fields = reader.read(Keys.fields)
        let sample = reader.read(Keys.sample)
        let refusalsPerSecond = reader.read(Keys.refusalsPerSecond)
        let level = reader.read(Keys.level)
        guard let access, let format, let fields, let sample, let refusalsPerSecond, let level else { return nil }
        self.access = access
        self.format = format
        self.fields = fields
        self.sample = sample
        self.refusalsPerSecond = refusalsPerSecond
        self.level = level
    }
}

extension Kind where Value == LogConfiguration.Access {
    /// A path needs a slash. Otherwise `stderr` or `on` would silently become files of that name.
    fileprivate static var access: Kind {
        let expected = "stdout, off, or the path of a file, with a slash: ./access.log"
        return Kind(expected: expected, shape: .text(pattern: "^(stdout|off|.*/.*[^/])$")) { item, reading in
            switch item.text {
            case "stdout": return .standardOutput
            case "off": return .off
            case .some(let path) where path.contains("/") && !path.hasSuffix("/"):
                let resolved = reading.resolve(path: path, at: item.place)
                reading.mention(.file(resolved), at: item.place)
                if let objection = reading.objection(toMaking: resolved) {
                    reading.refuse(
                        item.place, "the file \(Printable.quoted(resolved)) cannot be used: \(objection)",
                        expected: "the path of a file in a directory that exists")
                    return nil
                }
                return .file(resolved)
            case .some, .none:
                reading.refuse(
                    item.place, "found \(item.summary)", expected: expected,
                    suggestion: item.text.flatMap { Spelling.nearest(to: $0, among: ["stdout", "off"]) })
                return nil
            }
        }
    }
}
