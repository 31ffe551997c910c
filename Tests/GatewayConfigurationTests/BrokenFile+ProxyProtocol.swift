@testable import GatewayConfiguration

/// Load balancers that say where clients are.
extension BrokenFile {
    static let proxyProtocol = [
        proxies("no load balancers", "▶{}", "`from` is missing"),
        proxies("an empty list of them", "{ from: ▶[] }", "the list is empty"),
        proxies("the word alone", "▶true", "found `true`"),
        proxies("a name", "{ from: [▶lb.internal] }", "`lb.internal` is not an address"),
        proxies("an address with its port", "{ from: [▶10.0.0.1:80] }", "`10.0.0.1:80` is not an address"),
        proxies("brackets", "{ from: [▶'[::1]'] }", "`[::1]` is not an address", suggestion: "::1"),
        proxies("a leading zero", "{ from: [▶10.0.0.01] }", "`10.0.0.01` is not an address"),
        proxies("too few octets", "{ from: [▶10/8] }", "`10` is not an address"),
        proxies("too many bits", "{ from: [▶10.0.0.0/33] }", "`33` is not a number of bits from 0 to 32"),
        proxies(
            "too many bits of IPv6", "{ from: [▶'2001:db8::/129'] }", "`129` is not a number of bits from 0 to 128"),
        proxies("a mask", "{ from: [▶10.0.0.0/255.0.0.0] }", "`255.0.0.0` is not a number of bits from 0 to 32"),
        proxies("no bits", "{ from: [▶10.0.0.0/] }", "`` is not a number of bits from 0 to 32"),
        proxies("bits with a zero before", "{ from: [▶10.0.0.0/08] }", "`08` is not a number of bits from 0 to 32"),
        proxies(
            "an address that is not its network's", "{ from: [▶10.0.0.1/8] }",
            "`10.0.0.1/8` has bits set after the first 8",
            suggestion: "10.0.0.0/8"),
        proxies(
            "the same within an octet", "{ from: [▶192.0.2.65/26] }", "`192.0.2.65/26` has bits set after the first 26",
            suggestion: "192.0.2.64/26"),
        proxies(
            "the same in IPv6", "{ from: [▶'2001:db8::1/32'] }", "`2001:db8::1/32` has bits set after the first 32",
            suggestion: "2001:db8::/32"),
        proxies("one of them twice", "{ from: [10.0.0.1, ▶10.0.0.1/32] }", "`10.0.0.1/32` is listed twice"),
        proxies(
            "none that can reach the listener", "{ ▶from: ['::1'] }",
            "no connection to 127.0.0.1:8443 comes from an IPv6 address"),
        proxies("another key", "{ from: [10.0.0.1], ▶version: 2 }", "unknown key `version`"),
        BrokenFile(
            enrolling: "none that can reach the enrolment listener",
            "  address: 127.0.0.1:8444\n",
            "  address: '[::1]:8444'\n  proxy_protocol: { ▶from: [10.0.0.1] }\n",
            "no connection to [::1]:8444 comes from an IPv4 address"),
    ]

    private static func proxies(
        _ description: String, _ value: String, _ message: String, suggestion: String? = nil
    ) -> BrokenFile {
        BrokenFile(
            description, "  - address: 127.0.0.1:8443\n",
            "  - address: 127.0.0.1:8443\n    proxy_protocol: \(value)\n", message, suggestion: suggestion)
    }
}
