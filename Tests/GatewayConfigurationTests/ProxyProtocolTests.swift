import Testing

@testable import GatewayConfiguration

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
