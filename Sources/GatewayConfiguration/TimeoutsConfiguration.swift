/// Timeouts for clients.
public struct TimeoutsConfiguration: Equatable, Sendable {
    /// The time from the first byte of the connection to the end of the TLS handshake, in total.
    public let handshake: Duration
    /// The time from the first byte of a request to the end of its head, in total.
    public let head: Duration
    /// The time between two pieces of a request's content.
    public let contentIdle: Duration
    /// The minimum rate at which a client sends or takes content, in bytes per second, beyond such a pause.
    public let contentRate: Int
    /// The time between two requests of a connection.
    public let keepAlive: Duration
    /// The time without traffic in a WebSocket tunnel, in both directions.
    public let tunnelIdle: Duration
    /// The lifetime of a WebSocket tunnel, in total.
    public let tunnelLife: Duration
    /// The time for requests in flight after the gateway begins to stop.
    public let shutdown: Duration
}

extension TimeoutsConfiguration {
    enum Keys {
        static let handshake = Key(
            "handshake", .duration(.milliseconds(100) ... .seconds(300)), unit: "in total", whenMissing: .means("10s"),
            "The timeout of a TLS handshake.")
        static let head = Key(
            "head", .duration(.milliseconds(100) ... .seconds(300)), unit: "in total", whenMissing: .means("10s"),
            "The timeout of a request head.")
        static let contentIdle = Key(
            "content_idle", .duration(.milliseconds(100) ... .seconds(3600)), unit: "between two reads",
            whenMissing: .means("30s"), "The maximum pause of a client within the content of a request.")
        static let contentRate = Key(
            "content_rate", .byteRate(1...(1 << 20)), unit: "beyond a pause", whenMissing: .means("500B/s"),
            "The minimum rate at which a client sends and receives content.")
        static let keepAlive = Key(
            "keep_alive", .duration(.seconds(1) ... .seconds(3600)), unit: "between two requests",
            whenMissing: .means("75s"), "The timeout of an idle connection.")
        static let tunnelIdle = Key(
            "tunnel_idle", .duration(.seconds(1) ... .seconds(86_400)), unit: "without any data",
            whenMissing: .means("5m"), "The timeout of an idle WebSocket.")
        static let tunnelLife = Key(
            "tunnel_life", .duration(.seconds(1) ... .seconds(86_400)), unit: "in total", whenMissing: .means("1h"),
            "The maximum lifetime of a WebSocket.")
        static let shutdown = Key(
            "shutdown", .duration(.seconds(1) ... .seconds(3600)), unit: "since the signal", whenMissing: .means("30s"),
            "How long a stopping gateway waits for requests in flight.")

        static let section = Section(
            path: "timeouts",
            settings: [
                handshake.setting, head.setting, contentIdle.setting, contentRate.setting, keepAlive.setting,
                tunnelIdle.setting, tunnelLife.setting, shutdown.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let handshake = reader.read(Keys.handshake)
        let head = reader.read(Keys.head)
        let contentIdle = reader.read(Keys.contentIdle)
        let contentRate = reader.read(Keys.contentRate)
        let keepAlive = reader.read(Keys.keepAlive)
        let tunnelIdle = reader.read(Keys.tunnelIdle)
        let tunnelLife = reader.read(Keys.tunnelLife)
        let shutdown = reader.read(Keys.shutdown)
        // Without an idle timeout in the file, only the lifetime ends a tunnel.
        if let tunnelIdle, let tunnelLife, tunnelIdle > tunnelLife, reader.has(Keys.tunnelIdle) {
            reading.warn(
                reader.place(of: Keys.tunnelIdle),
                "`tunnel_idle` never ends a WebSocket: `tunnel_life` (\(DurationText.format(tunnelLife))) ends first",
                expected: "`tunnel_idle` of less than `tunnel_life`")
        }
        guard let handshake, let head, let contentIdle, let contentRate, let keepAlive, let tunnelIdle, let tunnelLife,
            let shutdown
        else { return nil }
        self.handshake = handshake
        self.head = head
        self.contentIdle = contentIdle
        self.contentRate = contentRate
        self.keepAlive = keepAlive
        self.tunnelIdle = tunnelIdle
        self.tunnelLife = tunnelLife
        self.shutdown = shutdown
    }
}
