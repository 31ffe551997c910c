import EventLoop
import Telemetry
import Testing

@testable import Enrolment
@testable import Server

@Suite("The enrolment endpoints")
struct EndpointTests {
    @Test("nonces are unique and are not cached")
    func nonce() throws {
        let service = try TestService()
        let answer = try service.ask("GET /nonce")
        #expect(answer.status == 200)
        #expect(answer.has("Cache-Control: no-store"))
        #expect(answer.has("Content-Type: application/json"))
        #expect(try Set((0..<20).map { _ in try service.nonce() }).count == 20)
    }

    @Test(
        "an unknown path is 404, and a wrong method is 405 with the admitted one",
        arguments: [
            ("GET /", 404, nil), ("GET /nonce/", 404, nil), ("POST /nonce", 405, "GET"), ("HEAD /nonce", 405, "GET"),
            ("OPTIONS /nonce", 405, "GET"), ("GET /key-binding", 405, "POST"),
            ("PUT /instance-initialization", 405, "POST"), ("BREW /key-binding", 405, "POST"),
        ])
    func paths(line: String, status: Int, allowed: String?) throws {
        let answer = try TestService().ask(line)
        #expect(answer.status == status)
        #expect(answer.has("Cache-Control: no-store"))
        if let allowed { #expect(answer.has("Allow: \(allowed)")) }
    }

    @Test("a nonce request with a query or content is refused")
    func bareNonce() throws {
        let service = try TestService()
        #expect(try service.ask("GET /nonce?a=b").status == 400)
        #expect(try service.ask("GET /nonce", content: "x").status == 400)
    }

    @Test("content must be declared as JSON or have no type")
    func mediaType() throws {
        let service = try TestService()
        let form = "Content-Type: application/x-www-form-urlencoded\r\n"
        let answer = try service.ask("POST /key-binding", fields: form, content: "{}")
        #expect((answer.status, answer.error) == (415, "bad_request"))
        for fields in ["", "Content-Type: application/json\r\n", "Content-Type: Application/JSON; charset=utf-8\r\n"] {
            let answer = try service.ask("POST /key-binding", fields: fields, content: "{}")
            #expect((answer.status, answer.error) == (400, "bad_request"), "\(fields)")
        }
    }

    @Test("content beyond the limit is refused, with or without announcement")
    func tooLarge() throws {
        let service = try TestService { $0.contentLimit = 1_000 }
        let long = String(repeating: " ", count: 1_001)
        #expect(try service.post("/key-binding", long).status == 413)
        let chunked =
            "POST /key-binding HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "3e9\r\n\(long)\r\n0\r\n\r\n"
        #expect(try service.exchange(chunked).status == 413)
        #expect(try service.post("/key-binding", String(long.dropLast())).status == 400, "one less is read")
    }

    @Test("malformed or slow HTTP is answered, and the connection closed")
    func faults() throws {
        let service = try TestService { settings in
            settings.server.headTimeout = .milliseconds(50)
            settings.server.contentIdleTimeout = .milliseconds(50)
        }
        #expect(try service.exchange("GET /nonce HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status == 400)
        #expect(try service.exchange("GET /nonce HTTP/1.1\r\nHo").status == 408)
        let slow = "POST /key-binding HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{"
        let answer = try service.exchange(slow)
        #expect((answer.status, answer.error) == (408, "bad_request"))
    }

    @Test("an address above its rate learns when to retry")
    func limited() throws {
        let service = try TestService { $0.requestsPerMinute = 2 }
        #expect(try service.ask("GET /nonce").status == 200)
        #expect(try service.ask("GET /nonce").status == 200)
        let answer = try service.ask("GET /nonce")
        #expect((answer.status, answer.error) == (503, "temporarily_unavailable"))
        #expect(answer.head.contains("\r\nRetry-After: "))
        #expect(service.metrics.requestsLimited == 1)
    }

    @Test("every answer has the current time")
    func date() throws {
        let answer = try TestService().post("/key-binding", "{}")
        #expect(answer.head.firstMatch(of: /\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/) != nil)
    }

    @Test("every answer is counted by endpoint and result")
    func counted() throws {
        let service = try TestService()
        _ = try service.ask("GET /nonce")
        _ = try service.ask("GET /elsewhere")
        _ = try service.post("/key-binding", "{}")
        let text = String(decoding: MetricsText.encode(service.metrics.families), as: UTF8.self)
        let name = "attestgate_enrolment_requests_total"
        #expect(text.contains("\(name){endpoint=\"nonce\",result=\"ok\"} 1\n"))
        #expect(text.contains("\(name){endpoint=\"other\",result=\"not_found\"} 1\n"))
        #expect(text.contains("\(name){endpoint=\"key-binding\",result=\"bad_request\"} 1\n"))
    }
}

@Suite("Limits per client address")
struct AddressLimitsTests {
    private let rates = AddressLimits.Rates(requestsPerMinute: 60, connections: 2)

    /// The value under test, which the macros' closures can change.
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
