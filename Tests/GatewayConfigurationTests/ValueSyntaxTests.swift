import Testing

@testable import GatewayConfiguration

@Suite("Value syntax")
struct ValueSyntaxTests {
    @Test(
        "durations are read",
        arguments: [
            ("1ms", Duration.milliseconds(1)), ("0s", .zero), ("500ms", .milliseconds(500)), ("10s", .seconds(10)),
            ("5m", .seconds(300)), ("1h", .seconds(3600)), ("720h", .seconds(2_592_000)), ("30d", .seconds(2_592_000)),
        ])
    func durations(text: String, duration: Duration) throws {
        #expect(try DurationText.parse(text) == duration)
        #expect(try DurationText.parse(DurationText.format(duration)) == duration)
    }

    @Test(
        "malformed durations are refused",
        arguments: [
            "", "s", "10", "-1s", "+1s", "1.5s", "01s", " 1s", "1 s", "1S", "1D", "1w", "٣s", "1s1s",
            "99999999999999999999s",
        ])
    func noDurations(text: String) {
        #expect(throws: InvalidValue.self) { try DurationText.parse(text) }
    }

    @Test(
        "sizes are read", arguments: [("0", 0), ("512", 512), ("16KiB", 16384), ("1MiB", 1 << 20), ("1GiB", 1 << 30)])
    func sizes(text: String, bytes: Int) throws {
        #expect(try SizeText.parse(text) == bytes)
        #expect(SizeText.format(bytes) == text)
    }

    @Test(
        "malformed sizes are refused",
        arguments: ["", "KiB", "1kib", "1 KiB", "1K", "-1", "0x10", "1e3", "1_000", "1.5MiB"])
    func noSizes(text: String) {
        #expect(throws: InvalidValue.self) { try SizeText.parse(text) }
    }

    @Test(
        "rates are read",
        arguments: [
            ("100/s", 100, RateConfiguration.Period.second, 100), ("60/m", 60, .minute, 60),
            ("10/s burst 50", 10, .second, 50), ("1/m burst 1000000", 1, .minute, 1_000_000),
        ])
    func rates(text: String, requests: Int, period: RateConfiguration.Period, burst: Int) throws {
        #expect(try RateText.parse(text) == RateConfiguration(requests: requests, period: period, burst: burst))
    }

    @Test(
        "malformed rates are refused",
        arguments: [
            "", "/", "100", "/s", "100/", "100/h", "0/s", "-1/s", "01/s", "1.5/s", "100 /s", "100/ s", "100/s burst",
            "100/s burst 0", "100/s  burst 5", "100/s burst 5 ", "100/s bursts 5", "100/s 5", "1000001/s",
            "1/s burst 1000001", "100/s/m",
        ])
    func noRates(text: String) {
        #expect(throws: InvalidValue.self) { try RateText.parse(text) }
    }

    @Test(
        "a wrong rate gets a suggestion",
        arguments: [("100", "100/s"), ("100/sec", "100/s"), ("60/min", "60/m"), ("60/h", nil), ("a/s", nil)])
    func meantRate(text: String, suggestion: String?) {
        let complaint = #expect(throws: InvalidValue.self) { try RateText.parse(text) }
        #expect(complaint?.suggestion == suggestion)
    }

    @Test(
        "a wrong unit gets a suggestion",
        arguments: [
            ("5sec", "5s"), ("5 s", "5s"), ("5msec", "5ms"), ("5millis", "5ms"), ("5min", "5m"), ("5H", "5h"),
            ("5days", "5d"), ("5w", nil),
        ])
    func meantDuration(text: String, suggestion: String?) {
        let complaint = #expect(throws: InvalidValue.self) { try DurationText.parse(text) }
        #expect(complaint?.suggestion == suggestion)
    }

    @Test(
        "addresses are read",
        arguments: [
            ("127.0.0.1:80", "127.0.0.1:80", true, true), ("127.9.9.9:80", "127.9.9.9:80", true, true),
            ("[::1]:80", "[::1]:80", true, true), ("[0:0:0:0:0:0:0:1]:80", "[::1]:80", true, true),
            ("localhost:80", "localhost:80", false, true), ("128.0.0.1:80", "128.0.0.1:80", true, false),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true, false), ("a.b:65535", "a.b:65535", false, false),
            ("localhost.example:80", "localhost.example:80", false, false),
        ])
    func addresses(text: String, description: String, isLiteral: Bool, isLoopback: Bool) throws {
        let address = try ServerAddress.parse(text)
        #expect(try ServerAddress.parseServer(text) == address)
        #expect(address.socketPath == nil)
        #expect(address.description == description)
        #expect(address.isLiteral == isLiteral)
        #expect(address.isLoopback == isLoopback)
    }

    @Test(
        "malformed addresses are refused",
        arguments: [
            "", ":", ":80", "*:80", "a", "a:", "a:+80", "a:080", "a:0", "[::1]", "[::1]80", "[::1:80", "[127.0.0.1]:80",
            "127.1:80", "127.0.0.01:80", "a_b:80", "A:80", "-a:80", "a..b:80", "a.:80", "fe80::1%eth0:80", "1.2.3:80",
            "http://a:80",
        ])
    func noAddresses(text: String) {
        #expect(throws: InvalidValue.self) { try ServerAddress.parse(text) }
        #expect(throws: InvalidValue.self) { try ServerAddress.parseServer(text) }
    }

    @Test("a Unix socket is a server's address, and no listener's")
    func sockets() throws {
        let longest = "/" + String(repeating: "a", count: 106)
        for path in ["/run/app.sock", "/a b", longest] {
            let address = try ServerAddress.parseServer("unix:\(path)")
            #expect(address.socketPath == path && address.description == "unix:\(path)")
            #expect(address.isLiteral && address.isLoopback)
            #expect(throws: InvalidValue.self) { try ServerAddress.parse("unix:\(path)") }
        }
        for path in ["", "a", "/", "//a", "/a\u{7f}", "/a\n", "\(longest)a", "/a:"] {
            #expect(throws: InvalidValue.self) { try ServerAddress.parseServer("unix:\(path)") }
        }
    }

    @Test(
        "paths are read",
        arguments: ["/", "/a", "/a/b", "/A.b-c_d~e", "/a:b@c!$&'()*+,=", "/%C3%A4", "/...", "/.well-known"])
    func paths(text: String) throws {
        #expect(try PathPrefix.parse(text) == text)
    }

    @Test(
        "malformed paths are refused",
        arguments: [
            "", "a", "//", "/a/", "/./a", "/a/.", "/..", "/a b", "/a\\b", "/a\"b", "/%", "/%4", "/%zz", "/%+1", "/%41",
            "/%7E", "/%2E", "/%00", "/%25", "/%5C", "/[", "/a\u{0}",
        ])
    func noPaths(text: String) {
        #expect(throws: InvalidValue.self) { try PathPrefix.parse(text) }
    }

    @Test("field names are read", arguments: [("X-User", "x-user"), ("x", "x"), ("X-1", "x-1")])
    func fields(text: String, name: String) throws {
        #expect(try ConfiguredFieldName.parse(text) == name)
    }

    @Test(
        "components are read",
        arguments: [
            "x-location", "authorization", "content-digest", "x-1", String(repeating: "x", count: 256),
        ])
    func components(text: String) throws {
        #expect(try ConfiguredFieldName.parseComponent(text) == text)
    }

    @Test(
        "unusual field names are read", arguments: [("X.Custom", "x.custom"), ("x!#$%&'*+^`|~", "x!#$%&'*+^`|~")])
    func unusualFields(text: String, name: String) throws {
        #expect(try ConfiguredFieldName.parseUnusual(text) == name)
    }

    @Test(
        "a name is not admitted if it can be read as a protected one, or needs no admission",
        arguments: [
            "", "a b", "ä", "X-User", "Attest!Device", "attest_", "Client~Cert", "CLIENT.CERT.CHAIN", "X!Forwarded!For",
            "X-HTTP-Method~Override", "x_host", "Content_Length", "if.match", "Transfer+Encoding", "Sec_WebSocket_Key",
        ])
    func noUnusualFields(text: String) {
        #expect(throws: InvalidValue.self) { try ConfiguredFieldName.parseUnusual(text) }
    }

    @Test(
        "malformed components are refused",
        arguments: [
            "", "a b", "a:", "ä", "a_b", "a.b", "x!", "X", "host", "te", "connection", "signature", "signature-input",
            "@method", "\"x\"", String(repeating: "x", count: 257),
        ])
    func noComponents(text: String) {
        #expect(throws: InvalidValue.self) { try ConfiguredFieldName.parseComponent(text) }
    }

    @Test(
        "counter rules are read",
        arguments: [
            ("strict", AppConfiguration.CounterRule.strict), ("window 1", .window(1)), ("window 1024", .window(1024)),
        ])
    func counterRules(text: String, rule: AppConfiguration.CounterRule) throws {
        #expect(try CounterRuleText.parse(text) == rule)
    }

    @Test(
        "malformed counter rules are refused",
        arguments: [
            "", "Strict", "strict 1", "window", "window ", "window  64", "window 64 ", "window: 64", "window -1",
            "window 064", "window 0", "window 1025", "window 99999999999999999999", "64",
        ])
    func noCounterRules(text: String) {
        #expect(throws: InvalidValue.self) { try CounterRuleText.parse(text) }
    }

    @Test("malformed field names are refused", arguments: ["", "a b", "a:", "ä", "a_b", "a.b", "Host", "TE"])
    func noFields(text: String) {
        #expect(throws: InvalidValue.self) { try ConfiguredFieldName.parse(text) }
    }
}
