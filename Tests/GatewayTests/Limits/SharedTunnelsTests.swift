import Registry
import Server
import Testing
import Vocabulary

@testable import Gateway

@Suite("The tunnels of all workers")
struct SharedTunnelsTests {
    @Test("tunnels per holder are limited, each that ends frees a place, and nothing is left")
    func limited() throws {
        let tunnels = SharedCounts<TunnelHolder>()
        let one = TunnelHolder.device(try #require(DeviceID(1)))
        let other = TunnelHolder.device(try #require(DeviceID(2)))
        #expect(tunnels.take(for: one, limit: 2))
        #expect(tunnels.take(for: one, limit: 2))
        #expect(!tunnels.take(for: one, limit: 2))
        #expect(tunnels.take(for: other, limit: 2), "another device has its own")
        tunnels.give(of: one)
        #expect(tunnels.take(for: one, limit: 2))
        #expect(!tunnels.take(for: one, limit: 1), "a reload may have set less")
        for holder in [one, one, other] { tunnels.give(of: holder) }
        #expect(tunnels.holders == 0)
    }

    @Test("each certificate key is a holder of its own")
    func certificates() throws {
        let tunnels = SharedCounts<TunnelHolder>()
        let digests: [[UInt8]] = [1, 2].map { [UInt8](repeating: $0, count: 32) }
        for digest in digests {
            let holder = TunnelHolder.certificate(KeyID(digest: digest.span))
            #expect(tunnels.take(for: holder, limit: 1))
            #expect(!tunnels.take(for: holder, limit: 1))
        }
        #expect(tunnels.holders == 2)
    }
}
