import Testing

@testable import GatewayConfiguration

@Suite("Which certificates a listener takes")
struct ListenerClientsTests {
    private func clients(_ lines: String) throws -> ListenerConfiguration.Clients {
        let text = Conf.attested(replacing: "      authorities: [ca.pem]\n", by: lines)
        return try #require(try Conf.read(text).configuration.listeners.first).clients
    }

    @Test("those of authorities, if nothing is said")
    func standard() throws {
        let clients = try clients("      authorities: [ca.pem]\n")
        #expect(clients.authoritiesPaths == ["conf/ca.pem"] && !clients.acceptsRegistered)
    }

    @Test("self-signed ones of registered devices besides, or alone")
    func registered() throws {
        let both = try clients("      authorities: [ca.pem]\n      accept: [issued, registered]\n")
        #expect(both.authoritiesPaths == ["conf/ca.pem"] && both.acceptsRegistered)
        let alone = try clients("      accept: [registered]\n")
        #expect(alone.authoritiesPaths.isEmpty && alone.acceptsRegistered)
    }
}
