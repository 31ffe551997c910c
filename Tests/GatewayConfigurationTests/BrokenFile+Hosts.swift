@testable import GatewayConfiguration

/// The hosts of a listener.
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

    /// With one host, which has another first line.
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
