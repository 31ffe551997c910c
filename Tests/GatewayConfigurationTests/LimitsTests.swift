import Testing

@testable import GatewayConfiguration

@Suite("Shares of one device")
struct DeviceShareTests {
    private static func read(
        _ upstream: String, _ limits: String = ""
    ) throws -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Conf.read(
            Conf.valid(replacing: "    servers: [127.0.0.1:9000]\n", by: "    servers: [127.0.0.1:9000]\n" + upstream)
                + limits)
    }

    @Test(
        "a share that equals an upstream's capacity is a warning at its line",
        arguments: [
            ("    connections: 10\n", "", 11, "10", "5"), ("    connections: 512\n", "", 11, "512", "256"),
            ("    requests: 20\n", "", 11, "20", "10"),
            ("", "limits:\n  requests_per_device: 1024\n", 18, "1024", "512"),
            ("    protocol: h2\n    connections: 2\n    streams: 100\n", "", 12, "200", "100"),
        ])
    func warned(upstream: String, limits: String, line: Int, room: String, half: String) throws {
        let warnings = try Self.read(upstream, limits).warnings
        try #require(warnings.count == 1)
        #expect(warnings[0].message.hasPrefix("one device may have all \(room) requests in flight"))
        #expect(warnings[0].expected?.hasPrefix("`requests_per_device` of at most \(half), ") ?? false)
        #expect(warnings[0].line == line)
    }

    @Test(
        "a share below the capacity is no warning, nor is a capacity of one",
        arguments: [
            ("", ""), ("    connections: 513\n", ""), ("    connections: 10\n", "limits: { requests_per_device: 9 }\n"),
            ("    connections: 1\n", ""), ("    protocol: h2\n    connections: 6\n", ""),
        ])
    func silent(upstream: String, limits: String) throws {
        #expect(try Self.read(upstream, limits).warnings.isEmpty)
    }

    @Test("a device's share of all clients' connections is a warning as well")
    func connections() throws {
        let warnings = try Self.read("", "limits: { connections: 512 }\n").warnings
        #expect(
            warnings.map(\.message) == [
                "one device may have as many requests in flight (`requests_per_device`: 512) as a worker has client connections"
            ])
        #expect(try Self.read("", "limits: { connections: 513 }\n").warnings.isEmpty)
    }

    @Test("lowering a limit also lowers the defaults of its parts")
    func parts() throws {
        let shares = "limits: { requests_per_device: 1 }\n"
        #expect(
            try Self.read("    connections: 10\n", shares).configuration.upstreams["records"]?.idleConnections == 10)
        #expect(
            try Self.read("    connections: 129\n", shares).configuration.upstreams["records"]?.idleConnections == 128)
        #expect(try Self.read("", "limits: { head: 4KiB }\n").configuration.limits.target == 4096)
        #expect(try Self.read("", "limits: { head: 9KiB }\n").configuration.limits.target == 8192)
        let enrolling = Conf.enrolling(
            replacing: "connections: 10\n  connections_per_address: 2\n", by: "connections: 10\n")
        #expect(try Conf.read(enrolling).configuration.enrolment?.connectionsPerAddress == 10)
    }
}

@Suite("Limits of WebSockets")
struct TunnelRoomTests {
    private static func file(_ further: String, upstream: String = "") -> String {
        Conf.valid(
            replacing: "    servers: [127.0.0.1:9000]\nroutes:\n",
            by: "    servers: [127.0.0.1:9000, 127.0.0.1:9001]\n\(upstream)routes:\n"
                + "  - { name: chat, host: localhost, path: /chat, require: certificate, upstream: records, websocket: allowed }\n"
        ) + further
    }

    @Test("a limit of 0 is a warning only where a route allows WebSockets")
    func none() throws {
        let warnings = try Conf.read(Self.file("limits: { tunnels: 0 }\n")).warnings
        try #require(warnings.count == 1)
        #expect(warnings[0].message.contains("the route `chat` says `websocket: allowed`: every WebSocket is refused"))
        #expect(warnings[0].place?.column == 20)
        #expect(try Conf.read(Conf.valid + "limits: { tunnels: 0 }\n").warnings.isEmpty)
    }

    @Test(
        "a configured idle time beyond the WebSocket's life is a warning",
        arguments: [
            ("{ tunnel_idle: 2h }", 1), ("{ tunnel_idle: 2m, tunnel_life: 1m }", 1), ("{ tunnel_life: 1m }", 0),
            ("{ tunnel_idle: 1m, tunnel_life: 1m }", 0),
        ])
    func idle(timeouts: String, count: Int) throws {
        let warnings = try Conf.read(Self.file("timeouts: \(timeouts)\n")).warnings
        #expect(warnings.count == count)
        #expect(warnings.allSatisfy { $0.message.contains("`tunnel_idle` never ends a WebSocket") })
    }

    @Test(
        "WebSockets get half of an upstream's capacity",
        arguments: [
            ("", 512), ("    connections: 301\n", 150), ("    connections_per_server: 10\n", 10),
            ("    requests: 9\n", 4), ("    requests: 5000\n", 512),
        ])
    func half(upstream: String, tunnels: Int) throws {
        let (configuration, warnings) = try Conf.read(Self.file("", upstream: upstream))
        #expect(warnings.allSatisfy { $0.message.hasPrefix("one device may have all ") })
        #expect(configuration.upstreams["records"]?.tunnels == tunnels)
        #expect(configuration.limits.tunnelsPerDevice == 4)
    }
}
