import EventLoop
import Testing

@testable import Gateway

@Suite("Addresses that proxies state")
struct ClientAddressFieldTests {
    private func address(_ line: String, _ field: ClientAddressField) -> String? {
        field.address(in: Array(line.utf8).span)?.host
    }

    @Test("the last address is the proxy's own word; those before it, a client may have written")
    func last() {
        #expect(address("203.0.113.9, 192.0.2.7", .xForwardedFor) == "192.0.2.7")
        #expect(address("for=203.0.113.9, for=192.0.2.7;proto=https;by=10.0.0.1", .forwarded) == "192.0.2.7")
        #expect(address("proto=https ; For = \"[2001:db8::7]:4711\"", .forwarded) == "2001:db8::7")
    }

    @Test("a comma within quotes begins no element")
    func quotes() {
        #expect(address("for=192.0.2.7;host=\"a,for=203.0.113.9\"", .forwarded) == "192.0.2.7")
        #expect(address("for=192.0.2.7;host=\"a\\\",for=203.0.113.9\"", .forwarded) == "192.0.2.7")
        #expect(address("for=192.0.2.7;host=\"a;for=203.0.113.9\"", .forwarded) == "192.0.2.7")
        #expect(address("host=\"a;for=203.0.113.9\";for=192.0.2.7", .forwarded) == "192.0.2.7")
        #expect(address("for=\"192.0.2.7", .forwarded) == nil)
    }

    @Test(
        "no quote that a client has written hides the address",
        arguments: ["\"", "for=\"", "\"a, \"", "for=203.0.113.9;host=\"a", "\"\\\"", "\\\"", "\"\"\""])
    func hidden(_ written: String) {
        #expect(address("\(written), 192.0.2.7", .xForwardedFor) == "192.0.2.7")
        for own in ["for=192.0.2.7", "for=\"192.0.2.7:4711\"", "for=192.0.2.7;host=\"b,for=203.0.113.9\""] {
            #expect(address("\(written), \(own)", .forwarded) == "192.0.2.7", "\(own)")
        }
        #expect(address("\(written),for=\"[2001:db8::7]\"", .forwarded) == "2001:db8::7")
    }

    @Test("of an odd number of quotes, none counts")
    func odd() {
        #expect(address("for=203.0.113.9\",for=192.0.2.7", .forwarded) == "192.0.2.7")
        #expect(address("for=203.0.113.9, host=\"a,for=192.0.2.7", .forwarded) == "192.0.2.7")
    }

    @Test(
        "addresses have ports and brackets, or not",
        arguments: [
            ("192.0.2.7:4711", "192.0.2.7"), ("2001:db8::7", "2001:db8::7"), ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:4711", "2001:db8::7"), (" 192.0.2.7\t", "192.0.2.7"), ("::ffff:192.0.2.7", "192.0.2.7"),
        ])
    func forms(_ text: String, _ expected: String) {
        #expect(address(text, .xForwardedFor) == expected)
    }

    @Test(
        "what is no address is none",
        arguments: ["", "unknown", "_hidden", "192.0.2", "[2001:db8::7", "192.0.2.7,", "a.example"])
    func none(_ text: String) {
        #expect(address(text, .xForwardedFor) == nil)
        #expect(address("for=\(text)", .forwarded) == nil)
    }
}
