@testable import GatewayConfiguration

/// YAML that is not taken.
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
