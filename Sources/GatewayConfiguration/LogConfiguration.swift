internal import Vocabulary

/// The contents and the destinations of the logs.
public struct LogConfiguration: Equatable, ConfigurationSection {
    @Setting(
        Access.kind, default: "stdout", restart: .needed(for: "turning the log on or off", when: { $0 == .off }),
        "Where the access log is written: one line for each request.")
    public var access: Access
    @Setting(.choice, default: "json", "The format of both logs.")
    public var format: Format
    @Setting(
        .distinct(.choice, minimum: 0), default: "[]", "Request data to log although it can identify a patient.")
    public var fields: [Field]
    @Setting(.integer(1...1_000_000), default: "1", "One in this number of requests that are not denied is logged.")
    public var sample: Int
    @Setting(
        .integer(1...1_000_000), unit: "lines per second and worker", default: "1000",
        "The maximum rate of logged denials; the others are counted.")
    public var refusalsPerSecond: Int
    @Setting(
        .choice, default: "info", restart: .needed(for: "another level", when: { $0 }),
        "The lowest level of events that are logged to standard error.")
    public var level: Level

    static let section = Section("log", of: Self.self)

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
        case requestedHost = "requested_host"
    }

    public enum Level: String, CaseIterable, Sendable {
        case error
        case warning
        case notice
        case info
        case debug
    }
}

extension LogConfiguration.Access {
    /// A path needs a slash. Otherwise `stderr` or `on` would silently become files of that name.
    fileprivate static var kind: Kind<Self> {
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
