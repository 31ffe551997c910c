import EventLoop
import Testing

@testable import Server

@Suite("Limits per source")
struct SharedSourcesTests {
    private let sources = SharedSources()
    private let limits = SharedSources.Limits(connections: 3, handshakes: 2)

    private static func block(_ text: String) throws -> AddressBlock { try SocketAddress(text).block }

    @Test("handshakes and connections are limited, and each that ends frees a place")
    func limited() throws {
        let source = try Self.block("192.0.2.7:1")
        #expect(sources.open(source, limits))
        #expect(sources.open(source, limits))
        #expect(!sources.open(source, limits), "two handshakes")
        sources.handshakeCompleted(source)
        #expect(sources.open(source, limits))
        sources.handshakeCompleted(source)
        #expect(!sources.open(source, limits), "three connections")
        sources.close(source, inHandshake: true)
        #expect(sources.open(source, limits))
        sources.close(source, inHandshake: true)
        sources.close(source, inHandshake: false)
        sources.close(source, inHandshake: false)
        #expect(sources.open(source, SharedSources.Limits(connections: 1, handshakes: 1)), "nothing was left behind")
    }

    @Test("the addresses of one /64 are one source, and no other address is")
    func apart() throws {
        let one = SharedSources.Limits(connections: 1)
        #expect(sources.open(try Self.block("[2001:db8:1:2::1]:1"), one))
        #expect(!sources.open(try Self.block("[2001:db8:1:2::2]:1"), one))
        #expect(sources.open(try Self.block("[2001:db8:1:3::1]:1"), one))
        #expect(sources.open(try Self.block("192.0.2.7:1"), one))
    }

    @Test("connections from before a limit count as well")
    func unlimited() throws {
        let source = try Self.block("192.0.2.7:1")
        for _ in 0..<100 { #expect(sources.open(source, SharedSources.Limits())) }
        #expect(!sources.open(source, SharedSources.Limits(connections: 100)))
    }
}
