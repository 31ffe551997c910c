import Testing

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
