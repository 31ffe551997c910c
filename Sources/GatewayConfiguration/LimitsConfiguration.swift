/// Limits for clients.
public struct LimitsConfiguration: Equatable, ConfigurationSection {
    @Setting(
        .size((64 << 20)...(1 << 40)), unit: "bytes of the process", isIndependent: true,
        "The memory of the whole process.")
    public var memory: Int?
    @Setting(
        .integer(1...1_000_000), unit: "connections per worker", default: "10000",
        "The maximum number of open client connections.")
    public var connections: Int
    @Setting(
        .integer(1...1_000_000), unit: "connections", isIndependent: true,
        "The maximum number of open connections of one client address.")
    public var connectionsPerSource: Int?
    @Setting(
        .integer(1...1_000_000), unit: "connections", default: "100",
        "The maximum number of open connections of one client certificate's key, or address without one.")
    public var connectionsPerClient: Int
    @Setting(
        .integer(1...1_000_000), unit: "handshakes per worker", default: "1000",
        "The maximum number of TLS handshakes in flight.")
    public var handshakes: Int
    @Setting(
        .integer(1...1_000_000), unit: "handshakes", isIndependent: true,
        "The maximum number of TLS handshakes in flight of one client address.")
    public var handshakesPerSource: Int?
    @Setting(
        .size((1 << 10)...(24 << 10)), unit: "bytes", default: "16KiB",
        "The maximum size of a request head: its first line and its fields.")
    public var head: Int
    /// Never more than `head`.
    @Setting(
        .size(128...(24 << 10)), unit: "bytes", default: "8KiB",
        "The maximum length of a request target: path and query.")
    public var target: Int
    @Setting(.integer(8...256), unit: "fields", default: "100", "The maximum number of fields in a request head.")
    public var fields: Int
    @Setting(
        .integer(1...1_000_000_000), unit: "requests", default: "10000",
        "The number of requests after which a connection is closed.")
    public var requestsPerConnection: Int
    @Setting(
        .integer(1...1000), unit: "requests per connection", default: "100",
        "The maximum number of requests in flight on an HTTP/2 connection.")
    public var streams: Int
    /// Counted per worker.
    @Setting(
        .integer(1...65_535), unit: "requests of one client", default: "1000",
        "The maximum number of HTTP/2 requests in flight of one client certificate's key, or address without one.")
    public var streamsPerClient: Int
    /// Counted per worker, by the certificate's key, or without a certificate by the address.
    @Setting(
        .integer(1...65_535), unit: "requests of one device", default: "512",
        "The maximum number of requests in flight of one device at one upstream.")
    public var requestsPerDevice: Int
    @Setting(
        .integer(0...1_000_000), unit: "tunnels per worker", default: "1000",
        "The maximum number of open WebSockets.")
    public var tunnels: Int
    /// Counted by the certificate's key if no device is known, or without a certificate by the address.
    @Setting(
        .integer(1...65_535), unit: "tunnels of one device", default: "4",
        "The maximum number of open WebSockets of one device.")
    public var tunnelsPerDevice: Int
    @Setting(
        .size((1 << 20)...(64 << 30)), unit: "bytes per worker", default: "256MiB",
        "The maximum size of request content that is held until proofs are verified.")
    public var heldContent: Int
    @Setting(
        .rate, unit: "requests of one address", isIndependent: true, "The maximum request rate of one client address.")
    public var ratePerSource: RateConfiguration?
    @Setting(
        .rate, unit: "requests of one device", isIndependent: true, "The maximum request rate of one registered device."
    )
    public var ratePerDevice: RateConfiguration?

    static let section = Section("limits", of: Self.self)

    func check(_ item: Item, _ reading: Reading) -> Bool {
        _target.lowerDefault(to: _head.value)
        guard let head = _head.value, let target = _target.value, target > head else { return true }
        reading.refuse(
            _target.place, "`target` (\(SizeText.format(target))) is larger than `head` (\(SizeText.format(head)))",
            expected: "`target` of at most \(SizeText.format(head)), because the target is part of the head")
        return false
    }
}

/// A warning about `rate_per_device` without a registry. Only the registry identifies devices, so the limit would have
/// no effect.
enum DeviceRate {
    static func check(_ root: Item, _ reading: Reading) {
        let key = "rate_per_device"
        guard let limits = root["limits"], limits[key] != nil else { return }
        let lacking = AppReferences.lacking(in: root)
        guard !lacking.isEmpty else { return }
        reading.refuse(
            limits.place(of: key), "`\(key)` needs the sections `registry` and `apps`, which know the devices",
            expected: "\(lacking.joined(separator: " and ")), or no `\(key)`")
    }
}

/// A warning about a device's share of an upstream that leaves no room for other devices.
enum DeviceShare {
    /// Checks the share of each upstream.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(
        _ upstreams: [String: UpstreamConfiguration], _ limits: LimitsConfiguration, in root: Item, _ reading: Reading
    ) {
        let key = "requests_per_device"
        let share = limits.requestsPerDevice
        if share >= limits.connections, limits.connections > 1, let item = root["limits"] {
            reading.warn(
                item.place(of: "connections"),
                "one device may have as many requests in flight (`\(key)`: \(share)) as a worker has client connections",
                expected: "`\(key)` of less than \(limits.connections)")
        }
        for entry in root["upstreams"]?.entries ?? [] {
            guard let upstream = upstreams[entry.key] else { continue }
            // The product of two numbers of the conf file, neither above 65535.
            let room = min(upstream.connections * upstream.streams, upstream.requests ?? .max)
            // A single place cannot be divided.
            guard share >= room, room > 1 else { continue }
            // If neither is written, both are defaults, which fit.
            let written = [(root["limits"], [key]), (entry.value, ["requests", "connections", "streams"])]
                .lazy.flatMap { section, keys in keys.compactMap { section?[$0]?.place } }.first
            reading.warn(
                written ?? entry.keyPlace,
                "one device may have all \(room) requests in flight that the upstream `\(entry.key)` allows:"
                    + " `limits.\(key)` is \(share)",
                expected: "`\(key)` of at most \(room / 2), half of them, so that other devices are served too")
        }
    }
}

/// Warnings about routes that allow WebSockets without room for tunnels.
enum TunnelCapacity {
    /// Checks the limits of tunnels.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(
        _ routes: [RouteConfiguration], _ upstreams: [String: UpstreamConfiguration], _ limits: LimitsConfiguration,
        in root: Item, _ reading: Reading
    ) {
        let allowing = routes.filter { $0.websocket == .allowed }
        guard let first = allowing.first else { return }
        if limits.tunnels == 0, let item = root["limits"] {
            reading.warn(
                item.place(of: "tunnels"),
                "`tunnels` is 0, and the route `\(first.name)` says `websocket: allowed`: every WebSocket is refused",
                expected: "at least 1, or no route with `websocket: allowed`")
        }
        var checked: Set<String> = []
        for route in allowing where upstreams[route.upstream]?.speaks == .http2 {
            guard checked.insert(route.upstream).inserted, let item = root["upstreams"]?[route.upstream] else {
                continue
            }
            reading.refuse(
                item.place(of: "protocol"),
                "the route `\(route.name)` allows WebSockets, which are forwarded only by HTTP/1.1",
                expected: "`protocol: http/1.1`, or `websocket: ignored`")
        }
        for route in allowing {
            guard let upstream = upstreams[route.upstream], upstream.tunnels == 0,
                checked.insert(route.upstream).inserted,
                let item = root["upstreams"]?[route.upstream]
            else { continue }
            // The setting that leaves one place.
            let key =
                upstream.requests == 1
                ? "requests" : upstream.connections == 1 ? "connections" : "connections_per_server"
            reading.refuse(
                item.place(of: key),
                "`\(key)` (1) leaves no connection for the WebSockets of the route `\(route.name)`, which may use half of them",
                expected: "at least 2, or `websocket: ignored`")
        }
    }
}

/// A refusal of routes whose content limit exceeds `held_content`. Collected content is held until it is verified.
enum HeldContent {
    /// Checks the content limit of each route that collects.
    ///
    /// - Parameter root: the settings as written, for the places of diagnostics.
    static func check(_ routes: [RouteConfiguration], _ limits: LimitsConfiguration, in root: Item, _ reading: Reading)
    {
        for (index, route) in routes.enumerated()
        where route.require == .requestProof && route.body == .collect && route.contentLimit > limits.heldContent {
            // Every route that was read stands in the file at its place.
            guard let item = root["routes"]?.elements[index] else { continue }
            reading.refuse(
                item.place(of: "content_limit"),
                "`content_limit` (\(SizeText.format(route.contentLimit))) is larger than `held_content` of `limits`"
                    + " (\(SizeText.format(limits.heldContent)))",
                expected:
                    "at most \(SizeText.format(limits.heldContent)), because content is held until its proof is verified,"
                    + " or `body: stream`")
        }
    }
}
