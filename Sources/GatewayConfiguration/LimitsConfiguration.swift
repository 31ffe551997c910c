/// Limits for clients.
public struct LimitsConfiguration: Equatable, Sendable {
    /// The memory limit of the whole process, in bytes. Nil for a share of the available memory.
    public let memory: Int?
    /// The maximum number of open client connections, per worker.
    public let connections: Int
    /// The maximum number of open connections of one client certificate's key, over all workers.
    public let connectionsPerClient: Int
    /// The maximum number of open connections of one client address, over all workers.
    public let connectionsPerSource: Int?
    /// The maximum number of TLS handshakes in progress, per worker.
    public let handshakes: Int
    /// The maximum number of handshakes of one client address, over all workers.
    public let handshakesPerSource: Int?
    /// The maximum size of a request's head, in bytes.
    public let head: Int
    /// The maximum size of a request's target, in bytes. Never more than `head`.
    public let target: Int
    /// The maximum number of fields in a request's head.
    public let fields: Int
    public let requestsPerConnection: Int
    /// The maximum number of requests in flight on an HTTP/2 connection.
    public let streams: Int
    /// The maximum number of HTTP/2 streams of one certificate's key, per worker.
    public let streamsPerClient: Int
    /// The maximum number of requests in flight at one upstream for one certificate's key, per worker.
    public let requestsPerDevice: Int
    /// The maximum number of WebSocket tunnels, open or opening, per worker.
    public let tunnels: Int
    /// The maximum number of tunnels of one device, or of one certificate's key if no device is known, over all
    /// workers.
    public let tunnelsPerDevice: Int
    /// The maximum content that a worker holds for requests that cannot be forwarded yet, in bytes.
    public let heldContent: Int
    /// The request rate of one client address, over all workers.
    public let ratePerSource: RateConfiguration?
    /// The request rate of one registered device, over all workers.
    public let ratePerDevice: RateConfiguration?
}

extension LimitsConfiguration {
    enum Keys {
        static let memory = Key(
            "memory", .size((64 << 20)...(1 << 40)), unit: "bytes of the process", whenMissing: .allowed,
            "The memory of the whole process.")
        static let connectionsPerClient = Key(
            "connections_per_client", .integer(1...1_000_000), unit: "connections", whenMissing: .means("100"),
            "The maximum number of open connections of one client certificate's key.")
        static let streamsPerClient = Key(
            "streams_per_client", .integer(1...65_535), unit: "requests of one client", whenMissing: .means("1000"),
            "The maximum number of HTTP/2 requests in flight of one client certificate's key.")
        static let connections = Key(
            "connections", .integer(1...1_000_000), unit: "connections per worker", whenMissing: .means("10000"),
            "The maximum number of open client connections.")
        static let connectionsPerSource = Key(
            "connections_per_source", .integer(1...1_000_000), unit: "connections", whenMissing: .allowed,
            "The maximum number of open connections of one client address.")
        static let handshakes = Key(
            "handshakes", .integer(1...1_000_000), unit: "handshakes per worker", whenMissing: .means("1000"),
            "The maximum number of TLS handshakes in flight.")
        static let handshakesPerSource = Key(
            "handshakes_per_source", .integer(1...1_000_000), unit: "handshakes", whenMissing: .allowed,
            "The maximum number of TLS handshakes in flight of one client address.")
        static let head = Key(
            "head", .size((1 << 10)...(24 << 10)), unit: "bytes", whenMissing: .means("16KiB"),
            "The maximum size of a request head: its first line and its fields.")
        static let target = Key(
            "target", .size(128...(24 << 10)), unit: "bytes", whenMissing: .means("8KiB"),
            "The maximum length of a request target: path and query.")
        static let fields = Key(
            "fields", .integer(8...256), unit: "fields", whenMissing: .means("100"),
            "The maximum number of fields in a request head.")
        static let requestsPerConnection = Key(
            "requests_per_connection", .integer(1...1_000_000_000), unit: "requests", whenMissing: .means("10000"),
            "The number of requests after which a connection is closed.")
        static let streams = Key(
            "streams", .integer(1...1000), unit: "requests per connection", whenMissing: .means("100"),
            "The maximum number of requests in flight on an HTTP/2 connection.")
        static let requestsPerDevice = Key(
            "requests_per_device", .integer(1...65_535), unit: "requests of one device", whenMissing: .means("512"),
            "The maximum number of requests in flight of one device at one upstream.")
        static let tunnels = Key(
            "tunnels", .integer(0...1_000_000), unit: "tunnels per worker", whenMissing: .means("1000"),
            "The maximum number of open WebSockets.")
        static let tunnelsPerDevice = Key(
            "tunnels_per_device", .integer(1...65_535), unit: "tunnels of one device", whenMissing: .means("4"),
            "The maximum number of open WebSockets of one device.")
        static let heldContent = Key(
            "held_content", .size((1 << 20)...(64 << 30)), unit: "bytes per worker", whenMissing: .means("256MiB"),
            "The maximum size of request content that is held until proofs are verified.")

        static let ratePerSource = Key(
            "rate_per_source", .rate, unit: "requests of one address", whenMissing: .allowed,
            "The maximum request rate of one client address.")
        static let ratePerDevice = Key(
            "rate_per_device", .rate, unit: "requests of one device", whenMissing: .allowed,
            "The maximum request rate of one registered device.")

        static let section = Section(
            path: "limits",
            settings: [
                memory.setting, connections.setting, connectionsPerSource.setting, connectionsPerClient.setting,
                handshakes.setting, handshakesPerSource.setting,
                head.setting, target.setting, fields.setting, requestsPerConnection.setting,
                streams.setting, streamsPerClient.setting, requestsPerDevice.setting, tunnels.setting,
                tunnelsPerDevice.setting,
                heldContent.setting, ratePerSource.setting, ratePerDevice.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let memory = reader.read(Keys.memory)
        let connections = reader.read(Keys.connections)
        let connectionsPerClient = reader.read(Keys.connectionsPerClient)
        let connectionsPerSource = reader.read(Keys.connectionsPerSource)
        let handshakes = reader.read(Keys.handshakes)
        let handshakesPerSource = reader.read(Keys.handshakesPerSource)
        let head = reader.read(Keys.head)
        let target = reader.read(Keys.target, within: head)
        let fields = reader.read(Keys.fields)
        let requestsPerConnection = reader.read(Keys.requestsPerConnection)
        let streams = reader.read(Keys.streams)
        let streamsPerClient = reader.read(Keys.streamsPerClient)
        let requestsPerDevice = reader.read(Keys.requestsPerDevice)
        let tunnels = reader.read(Keys.tunnels)
        let tunnelsPerDevice = reader.read(Keys.tunnelsPerDevice)
        let heldContent = reader.read(Keys.heldContent)
        let ratePerSource = reader.read(Keys.ratePerSource)
        let ratePerDevice = reader.read(Keys.ratePerDevice)
        if let head, let target, target > head {
            reading.refuse(
                reader.place(of: Keys.target),
                "`target` (\(SizeText.format(target))) is larger than `head` (\(SizeText.format(head)))",
                expected: "`target` of at most \(SizeText.format(head)), because the target is part of the head")
            return nil
        }
        guard let connections, let connectionsPerClient, let streamsPerClient, let handshakes, let head, let target,
            let fields, let requestsPerConnection,
            let streams, let requestsPerDevice, let tunnels, let tunnelsPerDevice, let heldContent
        else {
            return nil
        }
        self.memory = memory
        self.connections = connections
        self.connectionsPerClient = connectionsPerClient
        self.streamsPerClient = streamsPerClient
        self.connectionsPerSource = connectionsPerSource
        self.handshakes = handshakes
        self.handshakesPerSource = handshakesPerSource
        self.head = head
        self.target = target
        self.fields = fields
        self.requestsPerConnection = requestsPerConnection
        self.streams = streams
        self.requestsPerDevice = requestsPerDevice
        self.tunnels = tunnels
        self.tunnelsPerDevice = tunnelsPerDevice
        self.heldContent = heldContent
        self.ratePerSource = ratePerSource
        self.ratePerDevice = ratePerDevice
    }
}

/// A warning about `rate_per_device` without a registry. Only the registry identifies devices, so the limit would have
/// no effect.
enum DeviceRate {
    static func check(_ root: Item, _ reading: Reading) {
        let key = LimitsConfiguration.Keys.ratePerDevice.setting.name
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
        let key = LimitsConfiguration.Keys.requestsPerDevice.setting.name
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
