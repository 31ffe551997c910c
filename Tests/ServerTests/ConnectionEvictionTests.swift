import EventLoop
import Testing

@testable import Server

@Suite("Choosing a connection to close")
struct ConnectionEvictionTests {
    /// The place, from 1, of the first that is closed among connections from these addresses, the oldest first.
    private func choice(_ addresses: [String]) throws -> UInt64? {
        var choice = ConnectionEviction()
        for (index, address) in addresses.enumerated() {
            let holder = try SocketAddress(address).block.hashValue
            choice.add(holder: holder, number: UInt64(index + 1), isKnown: false, isClosable: true)
        }
        return choice.numbers.first
    }

    /// The places, from 1, of those that are closed among connections of these holders, the oldest first.
    ///
    /// - Parameters:
    ///   - busy: the places of those that may not be closed.
    ///   - known: the places of those whose clients have shown who they are.
    private func choices(_ holders: [Int], busy: Set<Int> = [], known: Set<Int> = []) -> [UInt64] {
        var choice = ConnectionEviction()
        for (index, holder) in holders.enumerated() {
            choice.add(
                holder: holder, number: UInt64(index + 1), isKnown: known.contains(index + 1),
                isClosable: !busy.contains(index + 1))
        }
        return choice.numbers
    }

    @Test("connections in use count for their holder and are not closed")
    func busy() {
        #expect(choices([7, 8, 7, 8, 7], busy: [1, 3]) == [5])
        #expect(choices([7, 8, 7], busy: [1, 3]) == [2], "the largest has none to close")
        #expect(choices([7, 8], busy: [1, 2]).isEmpty)
    }

    @Test("a stranger goes before a known client of the same address")
    func known() {
        #expect(choices([7, 7, 7], known: [1]) == [2])
        #expect(choices([7, 7, 8], known: [1, 2]) == [1])
    }

    @Test("of a crowd several are closed at once, but never more than it has beyond the next holder")
    func several() {
        #expect(choices([8] + Array(repeating: 7, count: 1023)) == [2, 3, 4, 5])
        #expect(choices(Array(repeating: 8, count: 511) + Array(repeating: 7, count: 513)) == [512, 513])
        #expect(choices([8] + Array(repeating: 7, count: 100)) == [2])
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
