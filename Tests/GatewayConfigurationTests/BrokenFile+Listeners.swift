@testable import GatewayConfiguration

/// Mistakes in the accepted client certificates.
extension BrokenFile {
    static let clients = [
        BrokenFile(
            "HTTP/2 in the clear",
            "    tls:\n      certificate: server.pem\n",
            "    protocols: [▶h2c]\n    tls:\n      certificate: server.pem\n",
            "HTTP/2 in the clear (`h2c`) is not supported for clients",
            suggestion: "h2"),
        BrokenFile(
            "a protocol that nobody knows",
            "    tls:\n      certificate: server.pem\n",
            "    protocols: [h2, ▶http/1]\n    tls:\n      certificate: server.pem\n",
            "`http/1` is not a known value",
            suggestion: "http/1.1"),
        BrokenFile(
            "no kind of certificate",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            "an unknown kind",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶register]\n",
            "`register` is not a known value",
            suggestion: "registered"),
        BrokenFile(
            "a kind twice",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      accept: [issued, ▶issued]\n",
            "`issued` is listed twice"),
        BrokenFile(
            attested: "issued certificates, and nobody who issues them",
            "      authorities: [ca.pem]\n",
            "      ▶accept: [issued, registered]\n",
            "`authorities` is missing"),
        BrokenFile(
            attested: "authorities whose certificates are not taken",
            "authorities: [ca.pem]",
            "accept: [registered]\n      authorities: ▶[ca.pem]",
            "`authorities` has no effect without `issued` in `accept`"),
        BrokenFile(
            "registered devices, and no registry that knows them",
            "authorities: [ca.pem]",
            "authorities: [ca.pem]\n      accept: [issued, ▶registered]",
            "`registered` needs the sections `registry` and `apps`"),
        BrokenFile(
            "a policy for revocation lists that are not there",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crl_policy: ▶require-fresh\n",
            "there are no revocation lists"),
        BrokenFile(
            "revocation lists that nobody reads",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crls: [ca.crl]\n      crl_policy: ▶none\n",
            "`none` would ignore `crls`"),
        BrokenFile(
            "an unknown policy for revocation lists",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      crls: [ca.crl]\n      crl_policy: ▶require_fresh\n",
            "`require_fresh` is not a known value",
            suggestion: "require-fresh"),
        BrokenFile(
            attested: "revocation lists of nobody",
            "      authorities: [ca.pem]\n",
            "      accept: [registered]\n      crls: ▶[ca.crl]\n",
            "`crls` has no effect without `issued` in `accept`"),
        BrokenFile(
            "an unknown demand for certificates",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      require: ▶optionally\n",
            "`optionally` is not a known value",
            suggestion: "optional"),
        BrokenFile(
            "a list of demands",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      require: ▶[always]\n",
            "found a list"),
        BrokenFile(
            "no kind of key",
            "      authorities: [ca.pem]\n", "      authorities: [ca.pem]\n      keys: ▶[]\n", "the list is empty"),
        BrokenFile(
            "one kind of key that is no list",
            "      authorities: [ca.pem]\n", "      authorities: [ca.pem]\n      keys: ▶rsa2048\n", "found `rsa2048`",
            suggestion: "[rsa2048]"),
        BrokenFile(
            "an unknown kind of key",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      keys: [p256, ▶rsa-2048]\n",
            "`rsa-2048` is not a known value",
            suggestion: "rsa2048"),
        BrokenFile(
            "a kind of key by OpenSSL's name",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      keys: [▶prime256v1]\n",
            "`prime256v1` is not a known value",
            suggestion: "p256"),
        BrokenFile(
            "a kind of key twice",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      keys: [p256, ▶p256]\n",
            "`p256` is listed twice"),
        BrokenFile(
            "two smallest moduli",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      keys: [▶rsa4096, p256, rsa2048]\n",
            "`rsa4096` has no effect beside `rsa2048`"),
        BrokenFile(
            attested: "keys of self-signed certificates",
            "      authorities: [ca.pem]\n",
            "      accept: [registered]\n      keys: ▶[p384]\n",
            "`keys` has no effect without `issued` in `accept`"),
        BrokenFile(
            "pins that no key can match",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      keys: [p384]\n"
                + "      pins: ▶[47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=]\n",
            "no certificate can match `pins`"),
        BrokenFile(
            "an unknown demand for the usage",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      usage: ▶if_present\n",
            "`if_present` is not a known value",
            suggestion: "if-present"),
        BrokenFile(
            attested: "the usage of self-signed certificates",
            "      authorities: [ca.pem]\n",
            "      accept: [registered]\n      usage: ▶if-present\n",
            "`usage` has no effect without `issued` in `accept`"),
        BrokenFile(
            "nginx's name of the demand",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      ▶ssl_verify_client: optional\n",
            "unknown key `ssl_verify_client`",
            suggestion: "require"),
        BrokenFile(
            "an empty list of pins, which would let nobody in",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            "a pin in another spelling of its base64",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: [▶47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=]\n",
            "is not a key id"),
        BrokenFile(
            "a pin in hexadecimal",
            "      authorities: [ca.pem]\n",
            "      authorities: [ca.pem]\n      pins: [▶e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c]\n",
            "is not a key id"),
    ]
}

/// Mistakes in the hosts of a listener.
extension BrokenFile {
    static let hosts = [
        host("without a name", "- names: ▶[]", "the list is empty"),
        host("by its address", "- names: [▶127.0.0.1]", "`127.0.0.1` is not a host name"),
        host("with a port", "- names: [▶localhost:8443]", "`localhost:8443` is not a host name"),
        host("in capitals", "- names: [▶Localhost]", "`Localhost` is not in lower case", suggestion: "localhost"),
        host(
            "for all names below another", "- names: [\"▶*.example.org\"]", "`*.example.org` is not a host name",
            quoted: true),
        host("with a last dot", "- names: [▶localhost.]", "`localhost.` is not a host name"),
        host("with a name twice", "- names: [localhost, ▶localhost]", "`localhost` is listed twice"),
        BrokenFile(
            "a name of two hosts",
            authorities,
            authorities + """
                    hosts:
                      - { names: [localhost], tls: { certificate: a, key: b }, clients: { authorities: [c] } }
                      - { names: [▶localhost], tls: { certificate: a, key: b }, clients: { authorities: [c] } }

                """,
            "the name `localhost` is already used by the host on line 9"),
        BrokenFile(
            "hosts, and none of them", authorities, authorities + "    hosts: ▶[]\n", "the list is empty"),
        BrokenFile(
            "a host that says nothing of its clients",
            authorities,
            authorities + "    hosts:\n      - ▶names: [localhost]\n        tls: { certificate: a, key: b }\n",
            "`clients` is missing"),
        BrokenFile(
            "a host with a key of the listener",
            authorities,
            authorities + "    hosts:\n      - { names: [localhost], tls: { certificate: a, key: b }, "
                + "clients: { authorities: [c] }, ▶hosts: [] }\n",
            "unknown key `hosts`"),
        BrokenFile(
            "registered devices of a host, and no registry that knows them",
            authorities,
            authorities + "    hosts:\n      - { names: [localhost], tls: { certificate: a, key: b }, "
                + "clients: { accept: [▶registered] } }\n",
            "`registered` needs the sections `registry` and `apps`"),
    ]

    private static let authorities = "      authorities: [ca.pem]\n"

    /// Returns a broken host section.
    private static func host(
        _ description: String, _ names: String, _ message: String, suggestion: String? = nil, quoted: Bool = false
    ) -> BrokenFile {
        // The place of quoted text is its quote.
        let names = quoted ? names.replacing("\"▶", with: "▶\"") : names
        return BrokenFile(
            "a host \(description)",
            authorities,
            authorities + "    hosts:\n      \(names)\n        tls: { certificate: a, key: b }\n"
                + "        clients: { authorities: [c] }\n",
            message, suggestion: suggestion)
    }
}

/// Mistakes in the load balancers of a listener.
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
