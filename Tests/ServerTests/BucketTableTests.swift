import EventLoop
import Testing

@testable import Server

@Suite("Token buckets in bounded memory")
struct BucketTableTests {
    /// Ten a second, twenty at once.
    private let rate = Rate(10, per: .seconds(1), burst: 20)

    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    /// A table where macros can reach it.
    private final class Buckets {
        private var table: BucketTable

        init(limit: Int) { table = BucketTable(limit: limit) }

        func take(of owner: Int, _ rate: Rate, at milliseconds: Int64) -> TimeSpan? {
            table.take(of: owner, rate, now: BucketTableTests.at(milliseconds))
        }

        /// How many go through at once.
        func drain(_ owner: Int, _ rate: Rate, at milliseconds: Int64) -> Int {
            var count = 0
            while take(of: owner, rate, at: milliseconds) == nil { count += 1 }
            return count
        }
    }

    @Test("a burst passes at once, then one per interval")
    func burst() {
        let buckets = Buckets(limit: 8)
        #expect(buckets.drain(1, rate, at: 0) == 20)
        #expect(buckets.take(of: 1, rate, at: 0) == .milliseconds(100))
        #expect(buckets.take(of: 1, rate, at: 99) == .milliseconds(1))
        #expect(buckets.take(of: 1, rate, at: 100) == nil)
        #expect(buckets.drain(1, rate, at: 1_100) == 10)
    }

    @Test("a bucket never holds more than its burst, however long it is unused")
    func full() {
        let buckets = Buckets(limit: 8)
        #expect(buckets.drain(1, rate, at: 0) == 20)
        #expect(buckets.drain(1, rate, at: 86_400_000) == 20)
    }

    @Test("a refused request takes no token, so retrying does not extend the wait")
    func refused() {
        let buckets = Buckets(limit: 8)
        _ = buckets.drain(1, rate, at: 0)
        for _ in 0..<1_000 { #expect(buckets.take(of: 1, rate, at: 50) == .milliseconds(50)) }
        #expect(buckets.take(of: 1, rate, at: 100) == nil)
    }

    @Test("owners do not share buckets")
    func apart() {
        let buckets = Buckets(limit: 8)
        #expect(buckets.drain(1, rate, at: 0) == 20)
        #expect(buckets.drain(2, rate, at: 0) == 20)
    }

    @Test("a changed rate applies to tokens already taken")
    func changed() {
        let buckets = Buckets(limit: 8)
        #expect(buckets.drain(1, rate, at: 0) == 20)
        #expect(buckets.drain(1, Rate(10, per: .seconds(1), burst: 25), at: 0) == 5)
        #expect(buckets.take(of: 1, Rate(10, per: .seconds(1), burst: 5), at: 0) == .milliseconds(2_100))
    }

    @Test("flooding with other owners never refills an owner's bucket")
    func crowd() {
        let buckets = Buckets(limit: 64)
        let owner = 0x1234_5678_9abc
        #expect(buckets.drain(owner, rate, at: 0) == 20)
        for other in 1...100_000 { _ = buckets.take(of: other &* 0x9e37_79b9, rate, at: 0) }
        #expect(buckets.take(of: owner, rate, at: 0) != nil)
        // Nor while they come one after the other, in the time that one token takes.
        for moment in 1..<100 {
            for other in 0..<100 {
                _ = buckets.take(of: (moment * 100 + other) &* 0x9e37_79b9, rate, at: Int64(moment))
            }
            #expect(buckets.take(of: owner, rate, at: Int64(moment)) != nil)
        }
    }

    @Test("a rare owner finds a full bucket, whatever thousands came before")
    func rare() {
        let buckets = Buckets(limit: 64)
        for other in 1...10_000 { #expect(buckets.take(of: other, rate, at: Int64(other) * 100) == nil) }
        #expect(buckets.drain(77_777, rate, at: 10_000_000) == 20)
    }

    @Test("threads that share buckets get together no more than one thread would")
    func shared() async {
        let buckets = SharedBuckets(limit: 1_024)
        let rate = Rate(1, per: .seconds(3_600), burst: 1_000)
        let now = Self.at(0)
        let taken = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    (0..<1_000).reduce(0) { sum, _ in sum + (buckets.take(of: 7, rate, now: now) == nil ? 1 : 0) }
                }
            }
            return await group.reduce(0, +)
        }
        #expect(taken == 1_000)
    }

    @Test("a wait is in whole seconds and at least one", arguments: [(1, 1), (1_000, 1), (1_001, 2), (30_000, 30)])
    func seconds(milliseconds: Int64, seconds: Int) {
        #expect(TimeSpan.milliseconds(milliseconds).wholeSeconds == seconds)
    }
}
