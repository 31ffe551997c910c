@testable import GatewayConfiguration

/// What holds between the parts.
extension BrokenFile {
    static let relations = [
        BrokenFile(
            "a route to an unknown upstream",
            "upstream: records",
            "upstream: ▶record",
            "there is no upstream `record`",
            suggestion: "records"),
        BrokenFile(
            "an address that is listened on already",
            "upstreams:\n",
            """
              - address: ▶127.0.0.1:8443
                tls: { certificate: a, key: b }
                clients: { authorities: [c] }
            upstreams:

            """,
            "127.0.0.1:8443 is already used by a listener, on line 2"),
        BrokenFile(
            "a name that is taken",
            "    upstream: records\n",
            """
                upstream: records
              - { name: ▶records, host: localhost, path: /b, require: certificate, upstream: records }

            """,
            "the name `records` is already used by the route on line 12"),
        BrokenFile(
            "a route that is there already",
            "    upstream: records\n",
            """
                upstream: records
              - name: b
                host: localhost
                path: ▶/records
                methods: [PUT, GET]
                require: certificate
                upstream: records

            """,
            "the route `records` already has the same host and path for GET, PUT"),
        BrokenFile(
            attested: "content that is larger than what may be held",
            "    upstream: records\n",
            "    upstream: records\n    content_limit: ▶257MiB\n",
            "`content_limit` (257MiB) is larger than `held_content` of `limits` (256MiB)"),
        BrokenFile(
            "an upstream whose one connection a WebSocket would take",
            "    servers: [127.0.0.1:9000]\nroutes:\n",
            """
                servers: [127.0.0.1:9000]
                connections: ▶1
                idle_connections: 1
            routes:
              - { name: chat, host: localhost, path: /chat, require: certificate, upstream: records, websocket: allowed }

            """,
            "`connections` (1) leaves no connection for the WebSockets of the route `chat`, which may use half of them"),
        BrokenFile(
            "an upstream whose one request a WebSocket would be",
            "    servers: [127.0.0.1:9000]\nroutes:\n",
            """
                servers: [127.0.0.1:9000]
                requests: ▶1
            routes:
              - { name: chat, host: localhost, path: /chat, require: certificate, upstream: records, websocket: allowed }

            """,
            "`requests` (1) leaves no connection for the WebSockets of the route `chat`, which may use half of them"),
    ]
}
