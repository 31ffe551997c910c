import EventLoop
import Testing

@testable import Server

@Suite("Choosing a connection to close")
struct GivingWayTests {
    /// The place, from 1, of the one that goes among connections from these addresses, the oldest first.
    private func choice(_ addresses: [String]) throws -> UInt64? {
        var choice = ConnectionEviction()
        for (index, address) in addresses.enumerated() {
            let block = try SocketAddress(address).block
            choice.add(ConnectionEviction.Candidate(block: block, number: UInt64(index + 1)))
        }
        return choice.number
    }

    @Test("the oldest connection of the address with the most is chosen")
    func crowd() throws {
        #expect(try choice(["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.2:2"]) == 2)
    }

    @Test("many addresses of one /64 count as one client")
    func prefix() throws {
        let crowd = (1...8).map { "[2001:db8:0:1::\($0)]:1" }
        #expect(try choice(["192.0.2.1:1", "192.0.2.1:2"] + crowd) == 3)
        #expect(try choice(["[2001:db8:0:2::1]:1", "[2001:db8:0:2::1]:2"] + crowd) == 3)
    }

    @Test("among equal addresses the oldest connection is chosen")
    func alike() throws {
        // Whatever the order of a dictionary.
        for count in 2...64 { #expect(try choice((1...count).map { "192.0.2.\($0):1" }) == 1) }
    }

    @Test("nothing is chosen without candidates")
    func nobody() throws {
        #expect(try choice([]) == nil)
    }
}
