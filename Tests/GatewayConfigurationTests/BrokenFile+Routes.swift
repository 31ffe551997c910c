@testable import GatewayConfiguration

/// Routes.
extension BrokenFile {
    static let routes = [
        BrokenFile(
            "a name in capitals",
            "name: records",
            "name: ▶Records",
            "`Records` is not a name",
            suggestion: "records"),
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
            "`%2F` is refused in every request"),
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
