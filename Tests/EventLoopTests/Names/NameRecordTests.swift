import Testing

@testable import EventLoop

@Suite("A name's record")
struct NameRecordTests {
    private let settings = ResolverSettings()
    private let start = Instant(nanoseconds: 1_000)
    private let one: SocketAddress
    private let two: SocketAddress
    private let six: SocketAddress

    init() throws {
        one = try SocketAddress("192.0.2.1:9000")
        two = try SocketAddress("192.0.2.2:9000")
        six = try SocketAddress("[2001:db8::6]:9000")
    }

    private func answer(_ addresses: [SocketAddress], ttl: Int64 = 30) -> NameAnswer {
        func part(_ some: [SocketAddress]) -> NameAnswer.Part {
            some.isEmpty ? .none : .addresses(some, ttl: .seconds(ttl))
        }
        return NameAnswer(ipv4: part(addresses.filter { !$0.isIPv6 }), ipv6: part(addresses.filter(\.isIPv6)))
    }

    private func failed(_ fault: NameFault = .timeout) -> NameAnswer {
        NameAnswer(ipv4: .failed(fault), ipv6: .failed(fault))
    }

    /// Returns a record that received these answers, each when it was due.
    private func record(_ answers: NameAnswer...) -> NameRecord {
        var record = NameRecord(dueAt: start)
        for answer in answers { _ = record.take(answer, at: record.nextLookup, settings) }
        return record
    }

    @Test(
        "an answer is valid for its TTL, within the configured bounds",
        arguments: [
            (0, 5), (4, 5), (5, 5), (60, 60), (300, 300), (301, 300), (2_147_483_647, 300),
        ])
    func life(ttl: Int64, believed: Int64) {
        #expect(record(answer([one], ttl: ttl)).nextLookup == start + .seconds(believed))
    }

    @Test("the shorter TTL of both address families counts")
    func shorter() {
        let both = NameAnswer(
            ipv4: .addresses([one], ttl: .seconds(100)), ipv6: .addresses([six], ttl: .seconds(20)))
        #expect(record(both).nextLookup == start + .seconds(20))
    }

    @Test("addresses stay while lookups fail and are retried after 1, 2, 4 and at most 60 seconds")
    func backoff() {
        var record = record(answer([one]))
        for pause: Int64 in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let due = record.nextLookup
            let news = record.take(failed(), at: due, settings)
            #expect(news == .nothing && record.fault == .timeout && record.addresses == [one])
            #expect(record.nextLookup == due + .seconds(pause))
        }
        for _ in 0..<100 { _ = record.take(failed(), at: start, settings) }
        #expect(record.nextLookup == start + .seconds(60))
        _ = record.take(answer([one]), at: start, settings)
        #expect(record.fault == nil && record.nextLookup == start + .seconds(30))
        _ = record.take(failed(), at: start, settings)
        #expect(record.nextLookup == start + .seconds(1), "a success ends the series")
    }

    @Test("addresses stay when the name is reported missing")
    func gone() {
        let record = record(answer([one]), answer([]))
        #expect(record.addresses == [one] && record.fault == .nonexistent)
    }

    @Test("a record is empty before the first answer, and a failure counts as an answer")
    func beginning() {
        #expect(!NameRecord(dueAt: start).isAnswered)
        let record = record(failed(.refused))
        #expect(record.isAnswered && record.addresses.isEmpty && record.fault == .refused)
    }

    @Test("a family without addresses is dropped, and one whose lookup failed is kept")
    func kinds() {
        #expect(record(answer([one, six]), answer([two])).addresses == [two])
        let half = NameAnswer(ipv4: .addresses([two], ttl: .seconds(30)), ipv6: .failed(.timeout))
        let record = record(answer([one, six]), half)
        #expect(record.addresses == [two, six] && record.fault == nil)
    }

    @Test("the order of the answer does not matter, since nameservers rotate it")
    func order() {
        var record = record(answer([one, two, six]))
        #expect(record.addresses == [one, six, two], "both kinds in turn")
        let again = record.take(answer([two, one, six]), at: start, settings)
        #expect(again == .nothing && record.addresses == [one, six, two])
        let fewer = record.take(answer([two]), at: start, settings)
        #expect(fewer == .changed && record.addresses == [two])
    }

    @Test("a record has at most 16 different addresses, of both families")
    func bound() throws {
        let many = try (0..<32).map { try SocketAddress("192.0.2.\($0):9000") }
        let sixes = try (0..<32).map { try SocketAddress("[2001:db8::\($0)]:9000") }
        let record = record(answer(many + sixes))
        #expect(record.addresses.count == 16 && record.addresses.count(where: \.isIPv6) == 8)
        #expect(self.record(answer([one, one, one])).addresses == [one])
    }

    @Test("an answer with only forbidden addresses is a failure; otherwise the others are used")
    func refused() {
        #expect(answer([one, two]).without { $0 == one } == answer([two]))
        let none = answer([one]).without { _ in true }
        #expect(none == NameAnswer(ipv4: .failed(.forbidden), ipv6: .none))
        #expect(record(answer([two]), none).addresses == [two])
        var record = record(answer([one, six]))
        let news = record.remove { $0 == one }
        #expect(news == .changed && record.addresses == [six])
    }
}
