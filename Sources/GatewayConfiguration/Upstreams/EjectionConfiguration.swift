/// Ejection of servers that fail requests.
public struct EjectionConfiguration: Equatable, Sendable {
    /// One after the other.
    public let failures: Int
    /// The first time; twice as long each time after.
    public let time: Duration
    /// Never less than `time`.
    public let longest: Duration
    /// Never more than there are servers.
    public let minimumServers: Int
}

extension EjectionConfiguration {
    enum Keys {
        static let failures = Key(
            "failures", .integer(1...1_000), unit: "failures", whenMissing: .means("5"),
            "The number of consecutive failures after which a server is ejected.")
        static let time = Key(
            "for", .duration(.milliseconds(100) ... .seconds(3600)), whenMissing: .means("10s"),
            "The first ejection time; it doubles each time.")
        static let longest = Key(
            "at_most", .duration(.milliseconds(100) ... .seconds(86_400)), whenMissing: .means("5m"),
            "The maximum ejection time.")
        static let minimumServers = Key(
            "minimum_servers", .integer(1...64), unit: "servers", whenMissing: .means("1"),
            "The minimum number of servers that are not ejected.")

        static let section = Section(
            path: "upstreams.ejection",
            settings: [failures.setting, time.setting, longest.setting, minimumServers.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let failures = reader.read(Keys.failures)
        let time = reader.read(Keys.time)
        let longest = reader.read(Keys.longest)
        let minimumServers = reader.read(Keys.minimumServers)
        if let time, let longest, longest < time {
            reading.refuse(
                reader.place(of: reader.has(Keys.longest) ? Keys.longest : Keys.time),
                "`at_most` (\(DurationText.format(longest))) is less than `for` (\(DurationText.format(time)))",
                expected: "`at_most` of at least \(DurationText.format(time))")
            return nil
        }
        guard let failures, let time, let longest, let minimumServers else { return nil }
        self.failures = failures
        self.time = time
        self.longest = longest
        self.minimumServers = minimumServers
    }
}
