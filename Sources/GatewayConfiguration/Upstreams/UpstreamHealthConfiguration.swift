/// Health checks of the servers.
public struct HealthCheckConfiguration: Equatable, ConfigurationSection {
    @Setting(
        required: .text(PathPrefix.expected, matching: PathPrefix.pattern, PathPrefix.parse),
        "The path of the GET request to each server.")
    public var path: String
    /// Nil for each server's own address.
    @Setting(
        .text("a host: a name or address, without a port", matching: HostName.pattern, HostName.parse),
        "The Host field of the request.")
    public var host: String?
    @Setting(
        .duration(.milliseconds(100) ... .seconds(3600)), unit: "from one check to the next", default: "5s",
        "How often each worker checks each server.")
    public var interval: Duration
    /// Less than `interval`.
    @Setting(
        .duration(.milliseconds(10) ... .seconds(300)), unit: "for a whole check", default: "2s",
        "The timeout of a check.")
    public var timeout: Duration
    @Setting(
        .integer(1...100), unit: "checks", default: "2",
        "The number of consecutive successful checks after which a server is used again.")
    public var healthyAfter: Int
    @Setting(
        .integer(1...100), unit: "checks", default: "3",
        "The number of consecutive failed checks after which a server is not used.")
    public var unhealthyAfter: Int
    /// Nil for 200 to 299.
    @Setting(.integer(200...599), "The status of a successful check.")
    public var status: Int?

    static let section = Section("upstreams.health", of: Self.self)

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard let interval = _interval.value, let timeout = _timeout.value, timeout >= interval else { return true }
        let limit = DurationText.format(interval)
        reading.refuse(
            _timeout.isWritten ? _timeout.place : _interval.place,
            "`timeout` (\(DurationText.format(timeout))) is not less than `interval` (\(limit))",
            expected: "`timeout` of less than \(limit), so that one check ends before the next")
        return false
    }
}

/// Ejection of servers that fail requests.
public struct EjectionConfiguration: Equatable, ConfigurationSection {
    @Setting(
        .integer(1...1_000), unit: "failures", default: "5",
        "The number of consecutive failures after which a server is ejected.")
    public var failures: Int
    @Setting(
        key: "for", .duration(.milliseconds(100) ... .seconds(3600)), default: "10s",
        "The first ejection time; it doubles each time.")
    public var time: Duration
    /// Never less than `time`.
    @Setting(
        key: "at_most", .duration(.milliseconds(100) ... .seconds(86_400)), default: "5m",
        "The maximum ejection time.")
    public var longest: Duration
    /// Never more than there are.
    @Setting(
        .integer(1...64), unit: "servers", default: "1", "The minimum number of servers that are not ejected.")
    public var minimumServers: Int

    static let section = Section("upstreams.ejection", of: Self.self)

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard let time = _time.value, let longest = _longest.value, longest < time else { return true }
        reading.refuse(
            _longest.isWritten ? _longest.place : _time.place,
            "`at_most` (\(DurationText.format(longest))) is less than `for` (\(DurationText.format(time)))",
            expected: "`at_most` of at least \(DurationText.format(time))")
        return false
    }
}
