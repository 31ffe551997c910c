import Registry
import Server
import Testing
import Vocabulary

@testable import Gateway

@Suite("Client shares of an upstream")
struct ClientSharesTests {
    @Test("a client has its share at each upstream, and returned places can be used again")
    func limit() {
        var shares = ClientShares(limit: 2)
        guard let first = shares.take(of: 0, for: 7) else {
            Issue.record("no share at all")
            return
        }
        #expect(shares.take(of: 0, for: 7) != nil)
        #expect(shares.take(of: 0, for: 7) == nil)
        #expect(shares.take(of: 1, for: 7) != nil)
        #expect(shares.take(of: 0, for: 8) != nil)
        shares.give(first)
        #expect(shares.take(of: 0, for: 7) != nil)
        #expect(shares.take(of: 0, for: 7) == nil)
    }

    @Test("every key and upstream has a share, and the largest limit does not overflow")
    func places() {
        var shares = ClientShares(limit: 65_535)
        for key in [Int.min, -1, 0, 1, Int.max] {
            for upstream in [0, 1, 1000, Int(Int32.max)] { #expect(shares.take(of: upstream, for: key) != nil) }
        }
        for _ in 0..<65_535 { _ = shares.take(of: 3, for: 42) }
        #expect(shares.take(of: 3, for: 42) == nil)
    }
}

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

    @Test("each client without a device is a holder of its own")
    func certificates() throws {
        let tunnels = SharedCounts<TunnelHolder>()
        for client in [1, 2] {
            let holder = TunnelHolder.client(client)
            #expect(tunnels.take(for: holder, limit: 1))
            #expect(!tunnels.take(for: holder, limit: 1))
        }
        #expect(tunnels.holders == 2)
    }
}
