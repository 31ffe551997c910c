import Foundation
import Testing

@testable import GatewayConfiguration

@Suite("Clients accepted by a listener")
struct ListenerClientsTests {
    private func clients(_ lines: String) throws -> ListenerConfiguration.Clients {
        let text = Conf.attested(replacing: "      authorities: [ca.pem]\n", by: lines)
        return try #require(try Conf.read(text).configuration.listeners.first?.clients)
    }

    @Test("certificates of authorities are accepted by default")
    func standard() throws {
        let clients = try clients("      authorities: [ca.pem]\n")
        #expect(clients.authoritiesPaths == ["conf/ca.pem"] && !clients.acceptsRegistered)
    }

    @Test("self-signed certificates of registered devices are accepted in addition, or alone")
    func registered() throws {
        let both = try clients("      authorities: [ca.pem]\n      accept: [issued, registered]\n")
        #expect(both.authoritiesPaths == ["conf/ca.pem"] && both.acceptsRegistered)
        let alone = try clients("      accept: [registered]\n")
        #expect(alone.authoritiesPaths.isEmpty && alone.acceptsRegistered)
    }

    @Test("fresh revocation lists are required by default where lists are configured")
    func revocationLists() throws {
        let authorities = "      authorities: [ca.pem]\n"
        #expect(try clients(authorities).revocationPolicy == .noLists)
        #expect(try clients(authorities + "      crl_policy: none\n").revocationPolicy == .noLists)
        let fresh = try clients(authorities + "      crls: [a.crl, b.crl]\n")
        #expect(fresh.revocationListsPaths == ["conf/a.crl", "conf/b.crl"] && fresh.revocationPolicy == .requireFresh)
        let stale = try clients(authorities + "      crls: [a.crl]\n      crl_policy: accept-stale\n")
        #expect(stale.revocationPolicy == .acceptStale)
    }

    @Test("certificates are demanded, of P-256 keys and with a stated usage, unless the file says otherwise")
    func demands() throws {
        let authorities = "      authorities: [ca.pem]\n"
        let standard = try clients(authorities)
        #expect(!standard.areOptional && standard.keys == [.p256] && standard.usage == .required)
        let other = try clients(
            authorities + "      require: optional\n      keys: [p256, ed25519, rsa2048]\n      usage: if-present\n")
        #expect(other.areOptional && other.keys == [.p256, .ed25519, .rsa2048] && other.usage == .ifPresent)
    }

    @Test("pins go with keys that are not P-256 if registered certificates, which are, are accepted")
    func pinsOfRegistered() throws {
        let lines = "      authorities: [ca.pem]\n      accept: [issued, registered]\n      keys: [p384]\n"
        #expect(try clients(lines + "      pins: [47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=]\n").pins?.count == 1)
    }

    @Test("any key is accepted unless keys are pinned")
    func pins() throws {
        let authorities = "      authorities: [ca.pem]\n"
        #expect(try clients(authorities).pins == nil)
        // SHA-256 of nothing.
        let pins = try clients(authorities + "      pins: [47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=]\n").pins
        let digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        #expect(pins?.map(\.description) == [digest])
    }
}

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

    /// Reads the file with further listeners.
    ///
    /// - Parameter further: the text of the listeners.
    private func read(_ further: String = "") throws -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Conf.read(Conf.valid(replacing: Self.authorities, by: Self.authorities + Self.hosts + further))
    }

    @Test("a route for clients without a certificate needs a listener or host that demands none for its host")
    func openRoutes() throws {
        let open = "require: nothing", optional = "authorities: [ca.pem], require: optional"
        func check(_ listener: String, host: String) throws {
            let hosts = "    hosts:\n      - names: [localhost]\n        tls: { certificate: a, key: b }\n"
            let clients = "      \(listener)\n" + hosts + "        clients: { \(host) }\n"
            let text = Conf.valid(replacing: Self.authorities, by: clients)
                .replacingOccurrences(of: "require: certificate", with: open)
            _ = try Conf.read(text)
        }
        try check("authorities: [ca.pem]", host: optional)
        let error = try #require(throws: ConfigurationError.self) {
            // The rules of the listener do not hold for its host.
            try check("authorities: [ca.pem]\n      require: optional", host: "authorities: [ca.pem]")
        }
        #expect(error.diagnostics.map(\.suggestion) == ["certificate"])
        #expect(error.diagnostics[0].message.contains("every listener demands a certificate for the host `localhost`"))
        // Another listener suffices.
        let second = Self.second.replacingOccurrences(of: "[ca.pem]", with: "[ca.pem], require: optional")
        let text = Conf.valid(replacing: Self.authorities, by: Self.authorities + second)
        _ = try Conf.read(text.replacingOccurrences(of: "require: certificate", with: open))
    }

    @Test("there are no virtual hosts by default")
    func none() throws {
        #expect(try Conf.read(Conf.valid).configuration.listeners[0].hosts.isEmpty)
    }

    @Test("a host has its own names, certificates and client settings")
    func own() throws {
        let listener = try #require(try read().configuration.listeners.first)
        #expect(
            listener.tls?.certificatePath == "conf/server.pem" && listener.clients?.authoritiesPaths == ["conf/ca.pem"])
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

@Suite("PROXY protocol in the conf file")
struct ProxyProtocolTests {
    private func read(_ from: String) throws -> (listener: ListenerConfiguration, warnings: [Diagnostic]) {
        let text = Conf.valid(
            replacing: "  - address: 127.0.0.1:8443\n",
            by: "  - address: 127.0.0.1:8443\n    proxy_protocol:\n      from: \(from)\n")
        let (configuration, warnings) = try Conf.read(text)
        return (try #require(configuration.listeners.first), warnings)
    }

    @Test("there are no load balancers unless configured")
    func none() throws {
        #expect(try Conf.read(Conf.valid).configuration.listeners.first?.proxyProtocol == nil)
        #expect(try Conf.read(Conf.enrolling).configuration.enrolment?.proxyProtocol == nil)
    }

    @Test("addresses and networks of both families are accepted in every spelling")
    func networks() throws {
        let (listener, warnings) = try read("[10.0.0.0/8, '2001:DB8::/32', 127.0.0.1, '::1', 192.0.2.128/25]")
        #expect(warnings.isEmpty)
        let networks = try #require(listener.proxyProtocol?.from)
        #expect(networks.map(\.length) == [8, 32, 32, 128, 25])
        #expect(networks[0].octets == [10, 0, 0, 0] && networks[2].octets == [127, 0, 0, 1])
        #expect(networks[1].octets == [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 12))
        #expect(networks[3].octets == [UInt8](repeating: 0, count: 15) + [1])
        #expect(networks[4].octets == [192, 0, 2, 128])
    }

    @Test("networks that contain every address are a warning", arguments: ["0.0.0.0/0", "127.0.0.1, '::/0'"])
    func everybody(_ from: String) throws {
        let (_, warnings) = try read("[\(from)]")
        #expect(warnings.map(\.message) == ["every client could claim any address"])
        #expect(warnings.map(\.line) == [4])
    }

    @Test("load balancers are accepted before the enrolment listener, too")
    func enrolment() throws {
        let text = Conf.enrolling(
            replacing: "  address: 127.0.0.1:8444\n",
            by: "  address: 127.0.0.1:8444\n  proxy_protocol: { from: [10.0.0.0/8, 0.0.0.0/0] }\n")
        let (configuration, warnings) = try Conf.read(text)
        #expect(configuration.enrolment?.proxyProtocol?.from.map(\.length) == [8, 0])
        #expect(configuration.listeners.first?.proxyProtocol == nil)
        #expect(warnings.count == 1)
    }

    @Test("at most 64 load balancers are accepted, since each connection checks them all")
    func many() throws {
        let addresses = (0..<65).map { "10.0.0.\($0)" }
        #expect(try read("[\(addresses.dropLast().joined(separator: ", "))]").listener.proxyProtocol?.from.count == 64)
        #expect(throws: ConfigurationError.self) { try read("[\(addresses.joined(separator: ", "))]") }
    }
}
