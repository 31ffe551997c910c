import Testing

@testable import GatewayConfiguration

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
