import Metrics
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
        var field = DateField()
        #expect(String(decoding: field.value(at: 784_111_777), as: UTF8.self) == "Sun, 06 Nov 1994 08:49:37 GMT")
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
