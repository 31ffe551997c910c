@testable import GatewayConfiguration

/// Mistakes in keys and in the structure of the file.
extension BrokenFile {
    static let structure = [
        BrokenFile(
            "an unknown key, with the nearest known one",
            "    upstream: records\n",
            "    upstream: records\n    ▶content_limt: 1MiB\n",
            "unknown key `content_limt`",
            suggestion: "content_limit"),
        BrokenFile(
            "an unknown key like no other",
            "upstreams:\n",
            "▶banana: 1\nupstreams:\n",
            "unknown key `banana`"),
        BrokenFile(
            "an unknown section",
            "upstreams:\n",
            "▶limit:\nupstreams:\n",
            "unknown key `limit`",
            suggestion: "limits"),
        BrokenFile(
            "a key in the wrong section",
            "      key:",
            "      ▶address: 1\n      key:",
            "unknown key `address`"),
        BrokenFile(
            "a key in capitals",
            "upstreams:\n",
            "▶Workers: 4\nupstreams:\n",
            "unknown key `Workers`",
            suggestion: "workers"),
        BrokenFile(
            "a missing key",
            "  - name: records\n    host",
            "  - ▶host",
            "`name` is missing"),
        BrokenFile(
            "a missing key of a nested section",
            "certificate: server.pem\n      key",
            "▶key",
            "`certificate` is missing"),
        BrokenFile(
            "a key without a value",
            "    path: /records",
            "    ▶path:",
            "`path` has no value"),
        BrokenFile(
            "a section without settings",
            "upstreams:\n",
            "▶limits:\nupstreams:\n",
            "`limits` has no value"),
        BrokenFile(
            "a list where a mapping should be",
            "upstreams:\n",
            "limits: ▶[1]\nupstreams:\n",
            "found a list"),
        BrokenFile(
            "text where a mapping should be",
            "upstreams:\n",
            "limits: ▶none\nupstreams:\n",
            "found `none`"),
        BrokenFile(
            "a mapping where a list should be",
            "[ca.pem]",
            "▶{}",
            "found a mapping"),
        BrokenFile(
            "text where a list should be",
            "[ca.pem]",
            "▶ca.pem",
            "found `ca.pem`",
            suggestion: "[ca.pem]"),
        BrokenFile(
            "a list where text should be",
            "path: /records",
            "path: ▶[/records]",
            "found a list"),
        BrokenFile(
            "an empty list of authorities",
            "[ca.pem]",
            "▶[]",
            "the list is empty"),
        BrokenFile(
            "an empty entry of a list",
            "[ca.pem]",
            "[ca.pem, ▶'']",
            "the path is empty"),
        BrokenFile(
            "an authority named twice",
            "[ca.pem]",
            "[ca.pem, ▶ca.pem]",
            "`ca.pem` is listed twice"),
        BrokenFile(
            "a duplicate key, at the second",
            "    upstream: records\n",
            "    upstream: records\n    ▶path: /b\n",
            "duplicate key `path`, first set on line 14"),
        BrokenFile(
            "a duplicate key in other quotes",
            "    upstream: records\n",
            "    upstream: records\n    ▶\"path\": /b\n",
            "duplicate key `path`, first set on line 14"),
        BrokenFile(
            "a duplicate key in flow style",
            "    servers: [127.0.0.1:9000]",
            "    { servers: [127.0.0.1:9000], connections: 1000, ▶connections: 500 }",
            "duplicate key `connections`, first set on line 10"),
        BrokenFile(
            "a duplicate section",
            "routes:\n",
            "log: { access: \"off\" }\n▶log: { access: stdout }\nroutes:\n",
            "duplicate key `log`, first set on line 11"),
        BrokenFile(
            "a duplicate upstream",
            "    servers: [127.0.0.1:9000]\n",
            "    servers: [127.0.0.1:9000]\n  ▶records:\n    servers: [127.0.0.1:9001]\n",
            "duplicate key `records`, first set on line 9"),
    ]
}

/// Mistakes in the syntax of YAML.
extension BrokenFile {
    static let yaml = [
        BrokenFile(
            "an empty file",
            "▶",
            "the file is empty"),
        BrokenFile(
            "a file of comments",
            "▶# nothing\n\n# here\n",
            "the file is empty"),
        BrokenFile(
            "an empty document",
            "▶---\n",
            "the file is empty"),
        BrokenFile(
            "a file that is a list",
            "▶- listeners\n",
            "found a list"),
        BrokenFile(
            "a second document",
            "routes:\n",
            "▶---\nroutes:\n",
            "a second document begins here"),
        BrokenFile(
            "an anchor",
            "host: localhost",
            "host: ▶&host localhost",
            "anchors and aliases are not supported"),
        BrokenFile(
            "an anchor on a mapping",
            "    tls:\n",
            "    tls: ▶&tls\n",
            "anchors and aliases are not supported"),
        BrokenFile(
            "an alias",
            "host: localhost",
            "host: ▶*host",
            "anchors and aliases are not supported"),
        BrokenFile(
            "a merge key",
            "    host: localhost\n",
            "    ▶<<: {}\n    host: localhost\n",
            "merge keys are not supported"),
        BrokenFile(
            "a tag",
            "host: localhost",
            "host: ▶!secret localhost",
            "tags are not supported"),
        BrokenFile(
            "a key that is a list",
            "upstreams:\n",
            "? ▶[a]\n: 1\nupstreams:\n",
            "a key cannot be a list or a mapping"),
        BrokenFile(
            "indentation that fits nothing",
            "    host: localhost",
            "   ▶host: localhost",
            "this is not YAML"),
        BrokenFile(
            "a tab as indentation",
            "    host: localhost",
            "▶\t\thost: localhost",
            "this is not YAML"),
        BrokenFile(
            "a bracket that is never closed",
            "[ca.pem]",
            "▶[ca.pem",
            "this is not YAML"),
        BrokenFile(
            "a quote that is never closed",
            "host: localhost",
            "host: ▶\"localhost",
            "this is not YAML"),
        BrokenFile(
            "an IPv6 address without quotes",
            "127.0.0.1:8443",
            "[▶::1]:8443",
            "this is not YAML"),
        BrokenFile(
            "a listener on a star",
            "127.0.0.1:8443",
            "▶*:8443",
            "anchors and aliases are not supported"),
        BrokenFile(
            "a control character",
            "host: localhost",
            "host: local▶\u{7}host",
            "the control character U+0007"),
        BrokenFile(
            "an escaped control character",
            "host: localhost",
            "host: ▶\"local\\0host\"",
            "control characters"),
        BrokenFile(
            "a value over several lines",
            "host: localhost",
            "host: ▶|\n      localhost",
            "line breaks"),
    ]
}
