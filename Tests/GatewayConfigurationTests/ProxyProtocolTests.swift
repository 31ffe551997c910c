import Testing

@testable import GatewayConfiguration

@Suite("Load balancers before a listener")
struct ProxyProtocolTests {
    private func read(_ from: String) throws -> (listener: ListenerConfiguration, warnings: [Diagnostic]) {
        let text = Conf.valid(
            replacing: "  - address: 127.0.0.1:8443\n",
            by: "  - address: 127.0.0.1:8443\n    proxy_protocol:\n      from: \(from)\n")
        let (configuration, warnings) = try Conf.read(text)
        return (try #require(configuration.listeners.first), warnings)
    }

    @Test("there are none unless they are named")
    func none() throws {
        #expect(try Conf.read(Conf.valid).configuration.listeners.first?.proxyProtocol == nil)
        #expect(try Conf.read(Conf.enrolling).configuration.enrolment?.proxyProtocol == nil)
    }

    @Test("are addresses and networks of both families, however they are spelt")
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

    @Test("are doubted where they are everybody", arguments: ["0.0.0.0/0", "127.0.0.1, '::/0'"])
    func everybody(_ from: String) throws {
        let (_, warnings) = try read("[\(from)]")
        #expect(warnings.map(\.message) == ["whoever connects can say that it is another address"])
        #expect(warnings.map(\.line) == [4])
    }

    @Test("stand before the enrolment listener, too")
    func enrolment() throws {
        let text = Conf.enrolling(
            replacing: "  address: 127.0.0.1:8444\n",
            by: "  address: 127.0.0.1:8444\n  proxy_protocol: { from: [10.0.0.0/8, 0.0.0.0/0] }\n")
        let (configuration, warnings) = try Conf.read(text)
        #expect(configuration.enrolment?.proxyProtocol?.from.map(\.length) == [8, 0])
        #expect(configuration.listeners.first?.proxyProtocol == nil)
        #expect(warnings.count == 1)
    }

    @Test("are 64 at most, since all of them are looked through for every connection")
    func many() throws {
        let addresses = (0..<65).map { "10.0.0.\($0)" }
        #expect(try read("[\(addresses.dropLast().joined(separator: ", "))]").listener.proxyProtocol?.from.count == 64)
        #expect(throws: ConfigurationError.self) { try read("[\(addresses.joined(separator: ", "))]") }
    }
}
