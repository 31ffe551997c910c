@testable import GatewayConfiguration

/// Upstreams.
extension BrokenFile {
    static let upstreams = [
        BrokenFile(
            "a server on another machine",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶10.0.0.7:9000]",
            "10.0.0.7:9000 is not on this machine, and TLS to upstreams is not yet available"),
        BrokenFile(
            "a server by name",
            "[127.0.0.1:9000]",
            "[▶records.internal:9000]",
            "records.internal:9000 is not on this machine"),
        BrokenFile(
            "a confession of another word",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    plaintext: ▶true\n",
            "`true` is not known here"),
        BrokenFile(
            "a server named twice",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶127.0.0.1:9000]",
            "stands in this list twice"),
        BrokenFile(
            "no servers",
            "[127.0.0.1:9000]",
            "▶[]",
            "the list is empty"),
        BrokenFile(
            "a server without a port",
            "[127.0.0.1:9000]",
            "[▶localhost]",
            "`localhost` has no port"),
        BrokenFile(
            "more idle connections than connections",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    connections: 10\n    idle_connections: ▶11\n",
            "`idle_connections` (11) is more than `connections` (10)"),
        BrokenFile(
            "fewer connections than the default of idle ones",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    connections: ▶10\n",
            "`idle_connections` (128) is more than `connections` (10)"),
        BrokenFile(
            "an upstream without settings",
            "  records:\n    servers: [127.0.0.1:9000]\n",
            "  ▶records:\n",
            "the upstream `records` has no settings"),
        BrokenFile(
            "no upstreams",
            "  records:\n    servers: [127.0.0.1:9000]\n",
            "  ▶{}\n",
            "the mapping is empty"),
        BrokenFile(
            "an upstream's name in capitals",
            "  records:\n    servers",
            "  records:\n    servers: [127.0.0.1:9000]\n  ▶Labs:\n    servers",
            "`Labs` is not a name",
            suggestion: "labs"),
    ]
}
