/// Timeouts for clients.
public struct TimeoutsConfiguration: Equatable, ConfigurationSection {
    /// Counted from the first byte of the connection.
    @Setting(
        .duration(.milliseconds(100) ... .seconds(300)), unit: "in total", default: "10s",
        "The timeout of a TLS handshake.")
    public var handshake: Duration
    /// Counted from the first byte of the request.
    @Setting(
        .duration(.milliseconds(100) ... .seconds(300)), unit: "in total", default: "10s",
        "The timeout of a request head.")
    public var head: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(3600)), unit: "between two reads", default: "30s",
        "The maximum pause of a client within the content of a request.")
    public var contentIdle: Duration
    /// In bytes per second, beyond a pause of `contentIdle`.
    @Setting(
        .byteRate(1...(1 << 20)), unit: "beyond a pause", default: "500B/s",
        "The minimum rate at which a client sends and receives content.")
    public var contentRate: Int
    @Setting(
        .duration(.seconds(1) ... .seconds(3600)), unit: "between two requests", default: "75s",
        "The timeout of an idle connection.")
    public var keepAlive: Duration
    @Setting(
        .duration(.seconds(1) ... .seconds(86_400)), unit: "without any data", default: "5m",
        "The timeout of an idle WebSocket.")
    public var tunnelIdle: Duration
    @Setting(
        .duration(.seconds(1) ... .seconds(86_400)), unit: "in total", default: "1h",
        "The maximum lifetime of a WebSocket.")
    public var tunnelLife: Duration
    @Setting(
        .duration(.seconds(1) ... .seconds(3600)), unit: "since the signal", default: "30s",
        "How long a stopping gateway waits for requests in flight.")
    public var shutdown: Duration
    /// Counted from the first signal. A second one ends it.
    @Setting(
        .duration(.zero ... .seconds(3600)), unit: "since the signal", default: "0s",
        "How long a stopping gateway still accepts connections while it is not ready.")
    public var shutdownDelay: Duration

    static let section = Section("timeouts", of: Self.self)

    func check(_ item: Item, _ reading: Reading) -> Bool {
        // Without an idle timeout in the file, only the lifetime ends a tunnel.
        if _tunnelIdle.isWritten, let tunnelIdle = _tunnelIdle.value, let tunnelLife = _tunnelLife.value,
            tunnelIdle > tunnelLife
        {
            reading.warn(
                _tunnelIdle.place,
                "`tunnel_idle` never ends a WebSocket: `tunnel_life` (\(DurationText.format(tunnelLife))) ends first",
                expected: "`tunnel_idle` of less than `tunnel_life`")
        }
        return true
    }
}
