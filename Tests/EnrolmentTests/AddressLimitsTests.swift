import EventLoop
import Testing

@testable import Enrolment

@Suite("Limits per client address")
struct AddressLimitsTests {
    private let rates = AddressLimits.Rates(requestsPerMinute: 60, connections: 2)

    /// The value under test, where the macros' closures can change it.
    private final class Limits {
        private var limits: AddressLimits

        init(limit: Int = 100) { limits = AddressLimits(limit: limit) }

        func takeRequest(of client: AddressBlock, _ rates: AddressLimits.Rates, now: Instant) -> Int? {
            limits.takeRequest(of: client, rates, now: now)
        }

        func openConnection(of client: AddressBlock, _ rates: AddressLimits.Rates) -> Bool {
            limits.openConnection(of: client, rates)
        }

        func closeConnection(of client: AddressBlock) { limits.closeConnection(of: client) }
    }

    private static func block(_ text: String) throws -> AddressBlock { try SocketAddress(text).block }

    private static func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

    @Test("a minute's requests may come at once; then the rate applies")
    func bucket() throws {
        let limits = Limits()
        let client = try Self.block("192.0.2.7:1")
        for _ in 0..<60 { #expect(limits.takeRequest(of: client, rates, now: Self.at(0)) == nil) }
        #expect(limits.takeRequest(of: client, rates, now: Self.at(0)) == 1)
        #expect(limits.takeRequest(of: client, rates, now: Self.at(1)) == nil)
        #expect(limits.takeRequest(of: client, rates, now: Self.at(1)) == 1)
        for _ in 0..<60 { #expect(limits.takeRequest(of: client, rates, now: Self.at(3_600)) == nil) }
        #expect(limits.takeRequest(of: client, rates, now: Self.at(3_600)) == 1)
    }

    @Test("a refusal at a slow rate says how long to wait")
    func wait() throws {
        let limits = Limits()
        let client = try Self.block("192.0.2.7:1")
        let slow = AddressLimits.Rates(requestsPerMinute: 2, connections: nil)
        for _ in 0..<2 { #expect(limits.takeRequest(of: client, slow, now: Self.at(0)) == nil) }
        #expect(limits.takeRequest(of: client, slow, now: Self.at(0)) == 30)
        #expect(limits.takeRequest(of: client, slow, now: Self.at(20)) == 10)
    }

    @Test("an IPv4 address is one client, whatever the port; an IPv6 /64 is one client")
    func blocks() throws {
        #expect(try Self.block("192.0.2.7:1") == Self.block("192.0.2.7:2"))
        #expect(try Self.block("192.0.2.7:1") != Self.block("192.0.2.8:1"))
        #expect(try Self.block("[2001:db8:1:2::1]:1") == Self.block("[2001:db8:1:2:ffff:ffff:ffff:ffff]:9"))
        #expect(try Self.block("[2001:db8:1:2::1]:1") != Self.block("[2001:db8:1:3::1]:1"))
        // ::c000:207 is no IPv4 address.
        #expect(try Self.block("[0:0:c000:207::]:1") != Self.block("192.0.2.7:1"))
    }

    @Test("clients do not share their limits")
    func apart() throws {
        let limits = Limits()
        let (first, second) = (try Self.block("192.0.2.7:1"), try Self.block("192.0.2.8:1"))
        for _ in 0..<60 { _ = limits.takeRequest(of: first, rates, now: Self.at(0)) }
        #expect(limits.takeRequest(of: first, rates, now: Self.at(0)) != nil)
        #expect(limits.takeRequest(of: second, rates, now: Self.at(0)) == nil)
    }

    @Test("many other addresses do not reset a client's bucket")
    func bounded() throws {
        let limits = Limits(limit: 8)
        let client = try Self.block("192.0.2.7:1")
        for _ in 0..<60 { _ = limits.takeRequest(of: client, rates, now: Self.at(0)) }
        for number in 1...200 {
            _ = limits.takeRequest(of: try Self.block("198.51.100.\(number):1"), rates, now: Self.at(0))
        }
        #expect(limits.takeRequest(of: client, rates, now: Self.at(0)) != nil)
    }

    @Test("connections per address are limited, and each that ends frees its place")
    func connections() throws {
        let limits = Limits()
        let (first, second) = (try Self.block("192.0.2.7:1"), try Self.block("192.0.2.8:1"))
        #expect(limits.openConnection(of: first, rates))
        #expect(limits.openConnection(of: first, rates))
        #expect(!limits.openConnection(of: first, rates))
        #expect(limits.openConnection(of: second, rates))
        limits.closeConnection(of: first)
        #expect(limits.openConnection(of: first, rates))
        #expect(!limits.openConnection(of: first, rates))
    }

    @Test("without rates no request is limited")
    func unlimited() throws {
        let limits = Limits()
        let client = try Self.block("192.0.2.7:1")
        for _ in 0..<1_000 {
            #expect(limits.takeRequest(of: client, AddressLimits.Rates(), now: Self.at(0)) == nil)
            #expect(limits.openConnection(of: client, AddressLimits.Rates()))
        }
    }
}
