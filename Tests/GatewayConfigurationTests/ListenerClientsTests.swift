import Testing

@testable import GatewayConfiguration

@Suite("Clients accepted by a listener")
struct ListenerClientsTests {
    private func clients(_ lines: String) throws -> ListenerConfiguration.Clients {
        let text = Conf.attested(replacing: "      authorities: [ca.pem]\n", by: lines)
        return try #require(try Conf.read(text).configuration.listeners.first).clients
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
