import EventLoop
import Testing

@testable import Server

@Suite("Of too many connections gives way")
struct GivingWayTests {
    /// The place, from 1, of the one that goes among connections from these addresses, the oldest first.
    private func choice(_ addresses: [String]) throws -> UInt64? {
        var choice = GivingWay()
        for (index, address) in addresses.enumerated() {
            let block = try SocketAddress(address).block
            choice.add(GivingWay.Stranger(block: block, number: UInt64(index + 1)))
        }
        return choice.number
    }

    @Test("the oldest of the address that has the most")
    func crowd() throws {
        #expect(try choice(["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.2:2"]) == 2)
    }

    @Test("whoever uses many addresses of one /64, not who has two connections")
    func prefix() throws {
        let crowd = (1...8).map { "[2001:db8:0:1::\($0)]:1" }
        #expect(try choice(["192.0.2.1:1", "192.0.2.1:2"] + crowd) == 3)
        #expect(try choice(["[2001:db8:0:2::1]:1", "[2001:db8:0:2::1]:2"] + crowd) == 3)
    }

    @Test("the oldest, of addresses that have as many: not the one that has only just come")
    func alike() throws {
        // Whatever the order of a dictionary.
        for count in 2...64 { #expect(try choice((1...count).map { "192.0.2.\($0):1" }) == 1) }
    }

    @Test("nobody where there is no stranger")
    func nobody() throws {
        #expect(try choice([]) == nil)
    }
}
