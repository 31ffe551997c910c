import EventLoop
import Testing

@testable import Gateway

@Suite("Client addresses")
struct ClientNetworkTests {
    private func network(_ address: String) throws -> String {
        String(decoding: ClientNetwork.text(of: try SocketAddress(address)), as: UTF8.self)
    }

    @Test("logs have client networks, not addresses")
    func networks() throws {
        #expect(try network("192.0.2.77:1") == "192.0.2.0/24")
        #expect(try network("[2001:db8:1:2:3:4:5:6]:1") == "2001:db8:1::/48")
        #expect(try network("[2001:db8::6]:1") == "2001:db8::/48")
        #expect(try network("[::1]:1") == "::/48")
    }

    @Test("IPv6 addresses are quoted in Forwarded (RFC 7239 section 6)")
    func forwarded() throws {
        func prefix(_ address: String) throws -> String {
            String(decoding: ClientNetwork.forwardedPrefix(of: try SocketAddress(address)), as: UTF8.self)
        }
        #expect(try prefix("192.0.2.7:1") == "for=192.0.2.7;proto=https;host=\"")
        #expect(try prefix("[2001:db8::7]:1") == "for=\"[2001:db8::7]\";proto=https;host=\"")
    }
}
