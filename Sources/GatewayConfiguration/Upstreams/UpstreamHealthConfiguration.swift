/// Health checks of the servers.
public struct HealthCheckConfiguration: Equatable, Sendable {
    public let path: String
    /// The value of `Host`. Nil for each server's own address.
    public let host: String?
    public let interval: Duration
    /// The timeout of a check, less than `interval`.
    public let timeout: Duration
    public let healthyAfter: Int
    public let unhealthyAfter: Int
    /// The required status. Nil for 200 to 299.
    public let status: Int?
}

extension HealthCheckConfiguration {
    enum Keys {
        static let path = Key(
            "path", .text(PathPrefix.expected, matching: PathPrefix.pattern, PathPrefix.parse), whenMissing: .refused,
            "The path of the GET request to each server.")
        static let host = Key(
            "host", .text("a host: a name or address, without a port", matching: HostName.pattern, HostName.parse),
            whenMissing: .allowed,
            "The Host field of the request.")
        static let interval = Key(
            "interval", .duration(.milliseconds(100) ... .seconds(3600)), unit: "from one check to the next",
            whenMissing: .means("5s"), "How often each worker checks each server.")
        static let timeout = Key(
            "timeout", .duration(.milliseconds(10) ... .seconds(300)), unit: "for a whole check",
            whenMissing: .means("2s"), "The timeout of a check.")
        static let healthyAfter = Key(
            "healthy_after", .integer(1...100), unit: "checks", whenMissing: .means("2"),
            "The number of consecutive successful checks after which a server is used again.")
        static let unhealthyAfter = Key(
            "unhealthy_after", .integer(1...100), unit: "checks", whenMissing: .means("3"),
            "The number of consecutive failed checks after which a server is not used.")
        static let status = Key(
            "status", .integer(200...599), whenMissing: .allowed, "The status of a successful check.")

        static let section = Section(
            path: "upstreams.health",
            settings: [
                path.setting, host.setting, interval.setting, timeout.setting, healthyAfter.setting,
                unhealthyAfter.setting, status.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let path = reader.read(Keys.path)
        let host = reader.read(Keys.host)
        let interval = reader.read(Keys.interval)
        let timeout = reader.read(Keys.timeout)
        let healthyAfter = reader.read(Keys.healthyAfter)
        let unhealthyAfter = reader.read(Keys.unhealthyAfter)
        let status = reader.read(Keys.status)
        if let interval, let timeout, timeout >= interval {
            reading.refuse(
                reader.place(of: reader.has(Keys.timeout) ? Keys.timeout : Keys.interval),
                "`timeout` (\(DurationText.format(timeout))) is not less than `interval` (\(DurationText.format(interval)))",
                expected:
                    "`timeout` of less than \(DurationText.format(interval)), so that one check ends before the next")
            return nil
        }
        guard let path, let interval, let timeout, let healthyAfter, let unhealthyAfter,
            host != nil || !reader.has(Keys.host), status != nil || !reader.has(Keys.status)
        else { return nil }
        self.path = path
        self.host = host
        self.interval = interval
        self.timeout = timeout
        self.healthyAfter = healthyAfter
        self.unhealthyAfter = unhealthyAfter
        self.status = status
    }
}

/// Ejection of servers that fail requests.
public struct EjectionConfiguration: Equatable, Sendable {
    /// The number of consecutive failures.
    public let failures: Int
    /// The duration of the first ejection. Each further one is twice as long.
    public let time: Duration
    /// The maximum duration, never less than `time`.
    public let longest: Duration
    /// The number of servers that stay in use, never more than there are.
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
