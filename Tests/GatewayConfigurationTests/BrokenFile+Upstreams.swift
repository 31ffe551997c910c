@testable import GatewayConfiguration

/// Mistakes in upstreams.
extension BrokenFile {
    static let upstreams = [
        BrokenFile(
            "a server on another machine",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶10.0.0.7:9000]",
            "10.0.0.7:9000 is not on this machine, and patient data would be sent unencrypted"),
        BrokenFile(
            "a Unix socket as nginx writes it", "[127.0.0.1:9000]", "[▶'unix:/run/app.sock:']",
            "`unix:/run/app.sock:` has no absolute path of a socket", suggestion: "unix:/run/app.sock"),
        BrokenFile(
            "a Unix socket as HAProxy writes it", "[127.0.0.1:9000]", "[▶unix@/run/app.sock]",
            "`unix@/run/app.sock` is no address", suggestion: "unix:/run/app.sock"),
        BrokenFile(
            "a Unix socket as a URL", "[127.0.0.1:9000]", "[▶unix:///run/app.sock]",
            "`unix:///run/app.sock` has no absolute path of a socket", suggestion: "unix:/run/app.sock"),
        BrokenFile(
            "the path of a Unix socket alone", "[127.0.0.1:9000]", "[▶/run/app.sock]", "`/run/app.sock` is no address",
            suggestion: "unix:/run/app.sock"),
        BrokenFile(
            "a Unix socket in an unknown folder", "[127.0.0.1:9000]", "[▶unix:app.sock]",
            "`unix:app.sock` has no absolute path of a socket"),
        BrokenFile(
            "a folder for a Unix socket", "[127.0.0.1:9000]", "[▶unix:/run/app/]",
            "`unix:/run/app/` has no absolute path of a socket"),
        BrokenFile(
            "a Unix socket with a path that no system takes", "[127.0.0.1:9000]",
            "[▶unix:/\(String(repeating: "a", count: 107))]", "the path of a socket has at most 107 bytes"),
        BrokenFile(
            "a Unix socket twice", "[127.0.0.1:9000]", "[unix:/run/app.sock, ▶unix:/run/app.sock]",
            "`unix:/run/app.sock`"),
        BrokenFile(
            "TLS over a Unix socket, without a name",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [▶unix:/run/app.sock]\n    tls: { authorities: ca.pem }\n",
            "the certificate of a Unix socket's server has no name to be compared with"),
        BrokenFile(
            "TLS and plaintext at once",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem }\n    plaintext: ▶accepted\n",
            "`tls` already encrypts the connections to the servers"),
        BrokenFile(
            "TLS without authorities",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { ▶policy: modern }\n",
            "`authorities` is missing"),
        BrokenFile(
            "TLS with no authorities",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ▶[] }\n",
            "the list is empty"),
        BrokenFile(
            "TLS that verifies nothing",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem, ▶verify: false }\n",
            "unknown key `verify`"),
        BrokenFile(
            "our certificate for a service without its key",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem, certificate: ▶us.pem }\n",
            "`certificate` requires `key`"),
        BrokenFile(
            "our key for a service without its certificate",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem, key: ▶us.key }\n",
            "`key` requires `certificate`"),
        BrokenFile(
            "a server name with a port",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem, server_name: ▶records.example:443 }\n",
            "`records.example:443` is more than a host",
            suggestion: "records.example"),
        BrokenFile(
            "an unknown policy towards services",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    tls: { authorities: ca.pem, policy: ▶moderne }\n",
            "`moderne` is not a known value",
            suggestion: "modern"),
        BrokenFile(
            "a certificate field that is none",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    client_certificate: ▶rfc9441\n",
            "`rfc9441` is not a known value",
            suggestion: "rfc9440"),
        BrokenFile(
            "a certificate field as a list",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    client_certificate: ▶[rfc9440]\n",
            "found a list"),
        BrokenFile(
            "a forwarded field that is none",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    forwarded: [forwarded, ▶x-forwarded-port]\n",
            "`x-forwarded-port` is not a known value",
            suggestion: "x-forwarded-for"),
        BrokenFile(
            "a forwarded field in capitals",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    forwarded: [▶X-Forwarded-For]\n",
            "`X-Forwarded-For` is not a known value",
            suggestion: "x-forwarded-for"),
        BrokenFile(
            "a forwarded field twice",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    forwarded: [x-forwarded-for, ▶x-forwarded-for]\n",
            "is listed twice"),
        BrokenFile(
            "a forwarded field that is no list",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    forwarded: ▶x-forwarded-for\n",
            "found `x-forwarded-for`",
            suggestion: "[x-forwarded-for]"),
        BrokenFile(
            "a protocol that is none",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    protocol: ▶h2c\n",
            "`h2c` is not a known value",
            suggestion: "h2"),
        BrokenFile(
            "streams of HTTP/1.1",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    streams: ▶10\n",
            "HTTP/1.1 has one request on a connection"),
        BrokenFile(
            "HTTP/2 in the clear with another machine",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [▶10.0.0.7:9000]\n    protocol: h2\n",
            "10.0.0.7:9000 is not on this machine, and patient data would be sent unencrypted"),
        BrokenFile(
            "a server by name",
            "[127.0.0.1:9000]",
            "[▶records.internal:9000]",
            "records.internal:9000 is not on this machine"),
        BrokenFile(
            "a confession of another word",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [10.0.0.7:9000]\n    plaintext: ▶true\n",
            "`true` is not a known value"),
        BrokenFile(
            "a server named twice",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶127.0.0.1:9000]",
            "is listed twice"),
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
            "a server that is a port",
            "[127.0.0.1:9000]",
            "[▶8443]",
            "`8443` has no address, only a port"),
        BrokenFile(
            "more idle connections than connections",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    connections: 1100\n    idle_connections: ▶1101\n",
            "`idle_connections` (1101) is more than `connections` (1100)"),
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
        BrokenFile(
            "an unknown rule for choosing servers",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    balance: ▶round-robbin\n",
            "`round-robbin` is not a known value",
            suggestion: "round-robin"),
        BrokenFile(
            "more connections to one server than to all",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    connections_per_server: ▶2000\n",
            "`connections_per_server` (2000) is more than `connections` (1024)"),
        BrokenFile(
            "a time to wait where nobody may",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    waiting: 0\n    waiting_timeout: ▶1s\n",
            "`waiting` is 0, so no request waits"),
        BrokenFile(
            "more servers that are left than there are",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    ejection: { minimum_servers: ▶2 }\n",
            "`minimum_servers` (2) is more than the number of servers (1)"),
        BrokenFile(
            "an ejection that ends before it begins to grow",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    ejection: { for: 10m, at_most: ▶5m }\n",
            "`at_most` (5m) is less than `for` (10m)"),
        BrokenFile(
            "health checks without a path",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    health: { ▶interval: 5s }\n",
            "`path` is missing"),
        BrokenFile(
            "a check that lasts longer than until the next one",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    health: { path: /health, interval: 1s, timeout: ▶1s }\n",
            "`timeout` (1s) is not less than `interval` (1s)"),
        BrokenFile(
            "a server that is the gateway itself",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶127.0.0.1:8443]",
            "127.0.0.1:8443 is a listener of the gateway itself"),
        BrokenFile(
            "a server that is the gateway itself, by its name",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶localhost:8443]",
            "localhost:8443 is a listener of the gateway itself"),
        BrokenFile(
            "a server that is the gateway itself, as an IPv6 address that maps it",
            "[127.0.0.1:9000]",
            "[127.0.0.1:9000, ▶\"[::ffff:127.0.0.1]:8443\"]\n    plaintext: accepted",
            "is a listener of the gateway itself"),
        BrokenFile(
            "a server that is the gateway on all addresses",
            "  - address: 127.0.0.1:8443\n    tls:\n      certificate: server.pem\n      key: server.key\n    clients:\n"
                + "      authorities: [ca.pem]\nupstreams:\n  records:\n    servers: [127.0.0.1:9000]",
            "  - address: 0.0.0.0:9000\n    tls:\n      certificate: server.pem\n      key: server.key\n    clients:\n"
                + "      authorities: [ca.pem]\nupstreams:\n  records:\n    servers: [▶127.0.0.1:9000]",
            "127.0.0.1:9000 is a listener of the gateway itself"),
        BrokenFile(
            "a server at no machine's address",
            "[127.0.0.1:9000]",
            "[▶0.0.0.0:9000]\n    plaintext: accepted",
            "0.0.0.0:9000 is not the address of a machine"),
        BrokenFile(
            "a server at the address of many",
            "[127.0.0.1:9000]",
            "[▶\"[ff02::1]:9000\"]\n    plaintext: accepted",
            "[ff02::1]:9000 is a multicast address"),
        BrokenFile(
            "a nameserver by its name",
            "upstreams:\n",
            "resolver: { nameservers: [▶localhost:53] }\nupstreams:\n",
            "`localhost` is a name, not an address", suggestion: "127.0.0.1:53"),
        BrokenFile(
            "a shortest life that is longer than the longest",
            "upstreams:\n",
            "resolver: { minimum_ttl: ▶6m }\nupstreams:\n",
            "`minimum_ttl` (6m) is longer than `maximum_ttl` (5m)"),
        BrokenFile(
            "a life of a part of a second",
            "upstreams:\n",
            "resolver: { minimum_ttl: ▶1500ms }\nupstreams:\n",
            "`1500ms` is not a whole number of seconds"),
        BrokenFile(
            "a check's path with a query",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    health: { path: ▶/health?deep }\n",
            "the path has `?`, which is not allowed"),
    ]
}
