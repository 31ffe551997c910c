import Testing

@testable import GatewayConfiguration

@Suite("Hosts of a listener")
struct ListenerHostsTests {
    private static let authorities = "      authorities: [ca.pem]\n"
    private static let hosts = """
            hosts:
              - names: [records.example.org, localhost]
                tls: { certificate: records.pem, key: records.key, policy: intermediate }
                clients: { authorities: [records-ca.pem], crls: [records.crl] }
              - names: [other.example.org]
                tls: { certificate: other.pem, key: other.key }
                clients: { authorities: [ca.pem] }

        """

    private static let second = """
          - address: 127.0.0.1:9443
            tls: { certificate: server.pem, key: server.key }
            clients: { authorities: [ca.pem] }

        """

    /// - Parameter further: listeners.
    private func read(_ further: String = "") throws -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Conf.read(Conf.valid(replacing: Self.authorities, by: Self.authorities + Self.hosts + further))
    }

    @Test("there are none, if nothing is said")
    func none() throws {
        #expect(try Conf.read(Conf.valid).configuration.listeners[0].hosts.isEmpty)
    }

    @Test("have names, certificates and clients of their own")
    func own() throws {
        let listener = try #require(try read().configuration.listeners.first)
        #expect(
            listener.tls.certificatePath == "conf/server.pem" && listener.clients.authoritiesPaths == ["conf/ca.pem"])
        try #require(listener.hosts.count == 2)
        let (records, other) = (listener.hosts[0], listener.hosts[1])
        #expect(records.names == ["records.example.org", "localhost"] && other.names == ["other.example.org"])
        #expect(records.tls.certificatePath == "conf/records.pem" && records.tls.policy == .intermediate)
        #expect(records.clients.authoritiesPaths == ["conf/records-ca.pem"])
        #expect(records.clients.revocationPolicy == .requireFresh && other.clients.revocationPolicy == .noLists)
        #expect(other.tls.policy == .modern)
        #expect(listener.allTLS.count == 3 && listener.allClients.count == 3)
    }

    @Test("that no route is for are warned of")
    func withoutRoute() throws {
        let warnings = try read().warnings.map(\.message)
        #expect(
            warnings == [
                "no route is for the host `records.example.org`", "no route is for the host `other.example.org`",
            ])
    }

    @Test("are warned of where a listener without them serves their routes by other rules, and not where it has them")
    func elsewhere() throws {
        let warning = "serves `localhost` too, by rules of its own"
        #expect(try read(Self.second).warnings.count { $0.message.hasSuffix(warning) } == 1)
        let own = Self.second + Self.hosts.replacing("records.example.org, ", with: "")
        #expect(try !read(own).warnings.contains { $0.message.hasSuffix(warning) })
    }
}
