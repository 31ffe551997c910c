@testable import GatewayConfiguration

/// Mistakes in routes.
extension BrokenFile {
    static let routes = [
        BrokenFile(
            "a route without a certificate where every listener demands one",
            "require: certificate",
            "require: ▶nothing",
            "`require: nothing` has no effect: every listener demands a certificate for the host `localhost`",
            suggestion: "certificate"),
        BrokenFile(
            "a level by another name",
            "require: certificate",
            "require: ▶none",
            "`none` is not a known value",
            suggestion: "nothing"),
        BrokenFile(
            "a name in capitals",
            "name: records",
            "name: ▶Records",
            "`Records` is not a name",
            suggestion: "records"),
        BrokenFile(
            attested: "a share without its sign", "require: request-proof", "require: request-proof\n    enforce: ▶25",
            "`25` is no share of devices", suggestion: "25%"),
        BrokenFile(
            attested: "a share above all", "require: request-proof", "require: request-proof\n    enforce: ▶101%",
            "`101%` is no share of devices"),
        BrokenFile(
            attested: "a share as a fraction", "require: request-proof", "require: request-proof\n    enforce: ▶0.25",
            "`0.25` is no share of devices"),
        BrokenFile(
            attested: "a misspelt mode of enforcement", "require: request-proof",
            "require: request-proof\n    enforce: ▶observed",
            "`observed` is no share of devices", suggestion: "observe"),
        BrokenFile(
            attested: "a list of shares", "require: request-proof", "require: request-proof\n    enforce: ▶[25%]",
            "found a list"),
        BrokenFile(
            "enforcement where a certificate is enough", "require: certificate",
            "require: certificate\n    enforce: ▶observe", "`enforce` has no effect with `require: certificate`"),
        BrokenFile(
            "a person where a certificate is enough", "require: certificate",
            "require: certificate\n    identity: ▶[subject]", "`identity` has no effect with `require: certificate`"),
        BrokenFile(
            attested: "an identity that does not exist", "require: request-proof",
            "require: request-proof\n    identity: [▶subjects]", "`subjects` is not a known value",
            suggestion: "subject"),
        BrokenFile(
            "a host in capitals",
            "host: localhost",
            "host: ▶Localhost",
            "is not in lower case",
            suggestion: "localhost"),
        BrokenFile(
            "a host with a port",
            "host: localhost",
            "host: ▶localhost:8443",
            "is more than a host",
            suggestion: "localhost"),
        BrokenFile(
            "a host with a star",
            "host: localhost",
            "host: ▶'*.example.org'",
            "is not a host name"),
        BrokenFile(
            "a host that is nearly an address",
            "host: localhost",
            "host: ▶127.0.0.256",
            "is not a host name"),
        BrokenFile(
            "a host with a longer spelling",
            "host: localhost",
            "host: ▶'[0:0::1]'",
            "has a shorter spelling",
            suggestion: "[::1]"),
        BrokenFile(
            "a path without a slash",
            "path: /records",
            "path: ▶records",
            "does not begin with `/`",
            suggestion: "/records"),
        BrokenFile(
            "a path with a slash at its end",
            "path: /records",
            "path: ▶/records/",
            "ends with `/`",
            suggestion: "/records"),
        BrokenFile(
            "a path with an empty segment",
            "path: /records",
            "path: ▶/a//b",
            "an empty segment"),
        BrokenFile(
            "a path with a dot segment",
            "path: /records",
            "path: ▶/a/../b",
            "the dot segment `..`"),
        BrokenFile(
            "a path with parameters",
            "path: /records",
            "path: ▶/a;b",
            "the path has `;`"),
        BrokenFile(
            "a path with a query",
            "path: /records",
            "path: ▶/a?b",
            "the path has `?`"),
        BrokenFile(
            "a path with a fragment",
            "path: /records",
            "path: ▶/a#b",
            "the path has `#`"),
        BrokenFile(
            "a path with an encoded letter",
            "path: /records",
            "path: ▶/%61",
            "`%61` encodes `a`, which must not be encoded"),
        BrokenFile(
            "a path with an encoded slash",
            "path: /records",
            "path: ▶/a%2Fb",
            "services read `%2F` in several ways"),
        BrokenFile(
            "a path with lower-case hexadecimal",
            "path: /records",
            "path: ▶/%c3%A4",
            "`%c3` is not in upper case"),
        BrokenFile(
            "a path with half an encoding",
            "path: /records",
            "path: ▶/a%2",
            "two hexadecimal digits"),
        BrokenFile(
            "a path beyond ASCII",
            "path: /records",
            "path: ▶/ä",
            "a non-ASCII character"),
        BrokenFile(
            "an unknown method",
            "    require",
            "    methods: [GET, ▶TRACE]\n    require",
            "`TRACE` is not a known value"),
        BrokenFile(
            "a method in lower case",
            "    require",
            "    methods: [▶get]\n    require",
            "`get` is not a known value",
            suggestion: "GET"),
        BrokenFile(
            "a method named twice",
            "    require",
            "    methods: [GET, ▶GET]\n    require",
            "`GET` is listed twice"),
        BrokenFile(
            "no methods",
            "    require",
            "    methods: ▶[]\n    require",
            "the list is empty"),
        BrokenFile(
            "targets that are none",
            "    require",
            "    targets: ▶commn\n    require",
            "`commn` is not a known value",
            suggestion: "common"),
        BrokenFile(
            "targets as a switch",
            "    require",
            "    targets: ▶true\n    require",
            "`true` is not a known value"),
        BrokenFile(
            "a path character that is none",
            "    require",
            "    path_characters: [semicolon, ▶encoded_slash]\n    require",
            "`encoded_slash` is not a known value",
            suggestion: "encoded-slash"),
        BrokenFile(
            "a path character itself",
            "    require",
            "    path_characters: [▶'%2F']\n    require",
            "`%2F` is not a known value"),
        BrokenFile(
            "a path character twice",
            "    require",
            "    path_characters: [semicolon, ▶semicolon]\n    require",
            "`semicolon` is listed twice"),
        BrokenFile(
            "path characters that are no list",
            "    require",
            "    path_characters: ▶semicolon\n    require",
            "found `semicolon`",
            suggestion: "[semicolon]"),
        BrokenFile(
            "a client's field that the gateway states too",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n    forwarded: [x-forwarded-for]\nforward_headers: [▶X-Forwarded-For]\n",
            "`X-Forwarded-For` is also among the fields in `forwarded` of an upstream"),
        BrokenFile(
            "an unknown level",
            "require: certificate",
            "require: ▶certificates",
            "`certificates` is not a known value",
            suggestion: "certificate"),
        BrokenFile(
            "a content limit beyond the largest",
            "    require",
            "    content_limit: ▶2GiB\n    require",
            "`2GiB` is out of range"),
        BrokenFile(
            attested: "an unknown way with content",
            "    upstream: records\n",
            "    upstream: records\n    body: ▶buffer\n",
            "`buffer` is not a known value"),
    ]
}

/// Mistakes in relations between sections.
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
