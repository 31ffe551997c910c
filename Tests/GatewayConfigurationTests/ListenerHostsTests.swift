import Testing

@testable import GatewayConfiguration

@Suite("Virtual hosts of a listener")
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

    @Test("there are no virtual hosts by default")
    func none() throws {
        #expect(try Conf.read(Conf.valid).configuration.listeners[0].hosts.isEmpty)
    }

    @Test("a host has its own names, certificates and client settings")
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

    @Test("a host without a route is a warning")
    func withoutRoute() throws {
        let warnings = try read().warnings.map(\.message)
        #expect(
            warnings == [
                "there is no route for the host `records.example.org`",
                "there is no route for the host `other.example.org`",
            ])
    }

    @Test("a listener that serves a host's routes under other rules is a warning")
    func elsewhere() throws {
        let warning = "with its own rules"
        #expect(try read(Self.second).warnings.count { $0.message.hasSuffix(warning) } == 1)
        let own = Self.second + Self.hosts.replacing("records.example.org, ", with: "")
        #expect(try !read(own).warnings.contains { $0.message.hasSuffix(warning) })
    }
}
