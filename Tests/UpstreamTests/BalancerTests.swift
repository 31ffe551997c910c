import EventLoop
import Testing

@testable import Upstream

@Suite("Choosing a server")
struct BalancerTests {
    private let now = Instant(nanoseconds: 1_000)

    private func servers(_ count: Int) -> [ServerState] {
        (0..<count).map {
            ServerState(name: "127.0.0.1:\(9000 + $0)", health: ServerHealth(ejection: EjectionRules(), checks: nil))
        }
    }

    private func balancer(_ balance: Balance, limit: Int = 1_000, share: Int = 1_000) -> Balancer {
        Balancer(balance, limit: limit, share: share)
    }

    /// Chooses a server outside of the macros, whose arguments cannot be changed.
    private func choose(
        _ balancer: inout Balancer, _ servers: [ServerState], _ key: UInt64, tried: ServerSet = ServerSet()
    ) -> Int? {
        balancer.choose(among: servers, for: key, tried: tried, at: now)
    }

    /// Returns how often each index is chosen.
    private func counts(
        _ balancer: inout Balancer, _ servers: [ServerState], _ requests: Int, key: (Int) -> UInt64 = { UInt64($0) }
    ) -> [Int] {
        var counts = [Int](repeating: 0, count: servers.count)
        for request in 0..<requests {
            if let place = choose(&balancer, servers, key(request)) { counts[place] += 1 }
        }
        return counts
    }

    @Test("round robin is even, also among the remaining servers")
    func roundRobin() {
        var balancer = balancer(.roundRobin)
        var servers = servers(4)
        #expect(counts(&balancer, servers, 400) == [100, 100, 100, 100])
        _ = servers[1].health.eject(at: now)
        #expect(counts(&balancer, servers, 300) == [100, 0, 100, 100])
    }

    @Test("a server without an address is used only when no other is left to choose")
    func unresolved() {
        var balancer = balancer(.roundRobin)
        var servers = servers(3)
        servers[1].isResolved = false
        #expect(counts(&balancer, servers, 100) == [50, 0, 50])
        _ = servers[0].health.eject(at: now)
        _ = servers[2].health.eject(at: now)
        #expect(counts(&balancer, servers, 100) == [50, 0, 50], "somebody who may be wrong is better than nobody")
        var tried = ServerSet()
        tried.insert(0)
        tried.insert(2)
        let next = choose(&balancer, servers, 0, tried: tried)
        #expect(next == nil)
        for place in servers.indices { servers[place].isResolved = false }
        #expect(counts(&balancer, servers, 3).reduce(0, +) == 3, "a request sent there fails at once")
    }

    @Test("the fewest requests in flight win, and equal servers alternate")
    func leastConnections() {
        var balancer = balancer(.leastConnections)
        var servers = servers(3)
        servers[0].busy = 5
        servers[1].busy = 2
        servers[2].busy = 7
        #expect(counts(&balancer, servers, 10) == [0, 10, 0])
        servers[0].busy = 2
        #expect(counts(&balancer, servers, 10) == [5, 5, 0])
    }

    @Test("under least connections a slow server gets only what it can handle")
    func leastConnectionsLoad() {
        var balancer = balancer(.leastConnections)
        var servers = servers(3)
        var given = [0, 0, 0]
        for round in 0..<300 {
            guard let place = choose(&balancer, servers, 0) else { break }
            given[place] += 1
            servers[place].busy += 1
            // The first server answers one in ten rounds, the others each round.
            for other in 1...2 where servers[other].busy > 0 { servers[other].busy -= 1 }
            if round % 10 == 0, servers[0].busy > 0 { servers[0].busy -= 1 }
        }
        #expect(given[0] < 40 && given[1] > 100 && given[2] > 100, "\(given)")
    }

    @Test("a device keeps its server, whatever the load of others or the configured order")
    func deviceStays() {
        var balancer = balancer(.device)
        let servers = servers(5)
        let reversed = Array(servers.reversed())
        for key in 0..<1_000 as Range<UInt64> {
            let first = choose(&balancer, servers, key)
            #expect(first == choose(&balancer, servers, key))
            #expect(choose(&balancer, reversed, key) == first.map { 4 - $0 })
        }
    }

    @Test("devices are distributed evenly")
    func deviceSpread() {
        var balancer = balancer(.device)
        for count in counts(&balancer, servers(5), 10_000) { #expect((1_850...2_150).contains(count), "\(count)") }
    }

    @Test("when a server goes, only its devices move, and they return with it")
    func deviceMovement() {
        var balancer = balancer(.device)
        var servers = servers(5)
        let keys = 0..<2_000 as Range<UInt64>
        let before = keys.map { choose(&balancer, servers, $0) }
        let well = servers[2].health
        _ = servers[2].health.eject(at: now)
        let during = keys.map { choose(&balancer, servers, $0) }
        for (old, new) in zip(before, during) { #expect(old == 2 ? new != 2 : new == old) }
        servers[2].health = well
        #expect(keys.map { choose(&balancer, servers, $0) } == before)
        // A sixth server takes about a sixth, and no other key moves.
        var more = self.servers(6)
        more.swapAt(0, 5)
        let names = [5, 1, 2, 3, 4, 0]
        let after = keys.map { choose(&balancer, more, $0).map { names[$0] } }
        let moved = zip(before, after).filter { $0 != $1 }
        #expect(moved.allSatisfy { $1 == 5 })
        #expect((250...420).contains(moved.count), "\(moved.count)")
    }

    @Test("a device of an overloaded server always moves to the same next one")
    func deviceBounded() throws {
        var balancer = balancer(.device)
        var servers = servers(3)
        let own = try #require(choose(&balancer, servers, 42))
        servers[own].busy = 7
        #expect(choose(&balancer, servers, 42) == own, "nobody is overloaded by a handful")
        servers[own].busy = 50
        let next = try #require(choose(&balancer, servers, 42))
        #expect(next != own)
        _ = servers[own].health.eject(at: now)
        #expect(choose(&balancer, servers, 42) == next)
    }

    @Test(
        "an ejected or unhealthy server is used only when there is no other",
        arguments: [.roundRobin, .leastConnections, .device] as [Balance])
    func panic(_ balance: Balance) {
        var balancer = balancer(balance)
        var servers = servers(3)
        _ = servers[0].health.eject(at: now)
        _ = servers[2].health.eject(at: now)
        #expect(counts(&balancer, servers, 30) == [0, 30, 0])
        _ = servers[1].health.eject(at: now)
        let all = counts(&balancer, servers, 300)
        #expect(all.reduce(0, +) == 300 && all.allSatisfy { $0 > 0 }, "\(all)")
    }

    @Test("a server in probation gets one request at a time")
    func probation() {
        var balancer = balancer(.roundRobin)
        var servers = servers(2)
        let span = servers[0].health.eject(at: Instant(nanoseconds: -1_000_000_000_000))
        #expect(span < .seconds(1_000))
        #expect(counts(&balancer, servers, 10) == [5, 5])
        servers[0].busy = 1
        #expect(counts(&balancer, servers, 10) == [0, 10])
    }

    @Test("a full server is skipped, and when all are full none is chosen")
    func full() {
        var balancer = balancer(.roundRobin, limit: 4)
        var servers = servers(2)
        servers[0].busy = 4
        #expect(counts(&balancer, servers, 10) == [0, 10])
        servers[1].busy = 4
        #expect(choose(&balancer, servers, 0) == nil)
    }

    @Test("one server may have all connections only while there is no other")
    func share() {
        var balancer = balancer(.roundRobin, limit: 10, share: 5)
        var servers = servers(2)
        servers[0].busy = 5
        #expect(counts(&balancer, servers, 4) == [0, 4])
        servers[1].busy = 5
        #expect(choose(&balancer, servers, 0) == nil)
        _ = servers[1].health.eject(at: now)
        #expect(choose(&balancer, servers, 0) == 0)
    }

    @Test("a server that failed a request is not chosen again for it")
    func tried() {
        var balancer = balancer(.device)
        let servers = servers(3)
        var tried = ServerSet()
        var places: Set<Int> = []
        while let place = choose(&balancer, servers, 7, tried: tried) {
            #expect(places.insert(place).inserted)
            tried.insert(place)
        }
        #expect(places == [0, 1, 2])
    }

    @Test("a retry after a failed server does not disturb the turns")
    func turns() {
        var balancer = balancer(.roundRobin)
        let servers = servers(2)
        var tried = ServerSet()
        tried.insert(0)
        var first = [0, 0]
        for _ in 0..<10 {
            guard let place = choose(&balancer, servers, 0) else { break }
            first[place] += 1
            if place == 0 { #expect(choose(&balancer, servers, 0, tried: tried) == 1) }
        }
        #expect(first == [5, 5])
    }

    @Test("64 servers are balanced as well as one")
    func many() {
        var balancer = balancer(.roundRobin)
        #expect(counts(&balancer, servers(64), 640) == [Int](repeating: 10, count: 64))
        var least = self.balancer(.leastConnections)
        #expect(counts(&least, servers(64), 640) == [Int](repeating: 10, count: 64))
        #expect(counts(&balancer, servers(1), 10) == [10])
    }
}

/// Applies a mutating function within a macro's argument, where the value itself cannot be changed.
func on<Value, Result>(_ value: inout Value, _ change: (inout Value) -> Result) -> Result { change(&value) }
