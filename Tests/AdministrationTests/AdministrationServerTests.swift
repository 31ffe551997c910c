import EventLoop
import Foundation
import Registry
import Server
import Testing
import TestVectors

@testable import Administration

@Suite("The administration socket")
struct AdministrationServerTests {
    @Test("the socket has mode 0600, and its file is removed with the server")
    func mode() throws {
        let directory = try SocketDirectory()
        do {
            let served = try TestAdministration(in: directory)
            var status = stat()
            #expect(lstat(served.socketPath, &status) == 0)
            #expect(status.st_mode == S_IFSOCK | 0o600)
        }
        #expect(!FileManager.default.fileExists(atPath: directory.socket))
    }

    @Test("the socket of a running server is refused to a second server, with the reason")
    func second() throws {
        let served = try TestAdministration()
        let loop = try Loop()
        do {
            _ = try AdministrationServer(loop: loop, socketPath: served.socketPath, registry: served.registry)
            Issue.record("served twice")
        } catch {
            #expect(
                error.description == "administration socket: \(served.socketPath): another process listens on it")
        }
        #expect(try served.ask("GET /devices").status == 200)
    }

    @Test("only the given endpoints are served when there is no registry")
    func endpoints() throws {
        let served = try TestAdministration(endpoints: {
            [
                AdministrationEndpoint(.get, "/health/live") { _, reply throws(AdministrationFault) in
                    reply.send(AdministrationResponse(200, contentType: "text/plain", Array("live\n".utf8)))
                    // Only the first answer counts.
                    reply.send(AdministrationResponse(500, contentType: "text/plain", []))
                }
            ]
        })
        let answer = try served.ask("GET /health/live")
        #expect(answer == (200, "live\n"))
        #expect(try served.refusal("POST /health/live") == "405 method_refused")
    }

    @Test("every answer is JSON and is never cached")
    func fields() throws {
        let served = try TestAdministration()
        let answer = try served.exchange("GET /devices HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
        #expect(answer.contains("Content-Type: application/json\r\n"))
        #expect(answer.contains("Cache-Control: no-store\r\n"))
        #expect(answer.hasSuffix("\r\n\r\n{\"devices\":[],\"next\":null}\n"))
    }

    // MARK: - Authentication

    @Test(
        "a request for another host is refused, even if its name resolves to this machine",
        arguments: ["evil.example", "localhost:8080", "LOCALHOST", "127.0.0.1"])
    func host(_ host: String) throws {
        let served = try TestAdministration()
        let answer = try served.exchange("GET /devices HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
        #expect(try TestAdministration.parse(answer).status == 421)
        let none = try served.exchange("GET /devices HTTP/1.1\r\nConnection: close\r\n\r\n")
        #expect(try TestAdministration.parse(none).status == 400)
    }

    @Test("a request with Origin is refused: only web pages send it", arguments: ["http://localhost", "null", ""])
    func origin(_ origin: String) throws {
        let served = try TestAdministration()
        #expect(try served.refusal("GET /devices", fields: "Origin: \(origin)\r\n") == "403 origin_refused")
        #expect(try served.refusal("GET /devices", fields: "oRIGIN: \(origin)\r\n") == "403 origin_refused")
    }

    // MARK: - Endpoints

    @Test(
        "an unknown path is refused with a code",
        arguments: [
            ("GET /", "404 not_found"), ("GET /device", "404 not_found"), ("GET /devices/", "400 bad_request"),
            ("GET /devices/1/", "404 not_found"), ("GET /devices/1/revoke/2", "404 not_found"),
            ("GET /Devices", "404 not_found"), ("DELETE /devices/1", "405 method_refused"),
            ("PURGE /devices", "405 method_refused"), ("GET /devices/1/revoke", "405 method_refused"),
            ("POST /devices/1", "405 method_refused"), ("GET /devices/0", "400 bad_request"),
            ("GET /devices/-1", "400 bad_request"), ("GET /devices/01", "400 bad_request"),
            ("GET /devices/9223372036854775808", "400 bad_request"), ("GET /devices/abc", "400 bad_request"),
            ("GET /devices/9", "404 not_found"), ("POST /devices/9/revoke", "404 not_found"),
            ("POST /devices/9/restore", "404 not_found"), ("GET /devices?limit=0", "400 bad_request"),
            ("GET /devices?limit=501", "400 bad_request"), ("GET /devices?limit=+5", "400 bad_request"),
            ("GET /devices?limit=5&limit=6", "400 bad_request"), ("GET /devices?after=x", "400 bad_request"),
            ("GET /devices?befor=1", "400 bad_request"), ("GET /devices?after", "400 bad_request"),
            ("GET /devices/1?x=1", "400 bad_request"), ("GET /devices?a%20=1", "400 bad_request"),
            ("GET //devices", "400 bad_request"), ("GET /devices/../devices", "400 bad_request"),
            ("GET /\(String(repeating: "a", count: 2000))", "414 too_large"),
        ])
    func refusals(_ line: String, _ expected: String) throws {
        let served = try TestAdministration()
        #expect(try served.refusal(line) == expected)
    }

    @Test("a wrong method on a known path is answered with the admitted methods")
    func allow() throws {
        let served = try TestAdministration()
        let answer = try served.exchange("PUT /devices HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        #expect(answer.contains("Allow: GET, POST\r\n"))
    }

    @Test("HEAD is answered without content")
    func head() throws {
        let served = try TestAdministration()
        let answer = try served.ask("HEAD /devices")
        #expect(answer == (405, ""))
    }

    // MARK: - Malformed, oversized and slow requests

    @Test(
        "a malformed request is refused and the connection closed",
        arguments: [
            "GET /devices\r\n\r\n", "GET /devices HTTP/1.1\nHost: localhost\n\n",
            "GET /devices HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            "GET http://localhost/devices HTTP/1.1\r\nHost: localhost\r\n\r\n", "\u{16}\u{3}\u{1}hello",
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ])
    func malformed(_ bytes: String) throws {
        let served = try TestAdministration()
        #expect(try TestAdministration.parse(try served.exchange(bytes)).status == 400)
    }

    @Test("a head that is too large is refused")
    func largeHead() throws {
        let served = try TestAdministration()
        let field = "X-Field: \(String(repeating: "a", count: 9000))\r\n"
        #expect(try served.refusal("GET /devices", fields: field) == "431 too_large")
        let many = (0..<40).map { "X-\($0): 1\r\n" }.joined()
        #expect(try served.refusal("GET /devices", fields: many) == "431 too_large")
    }

    @Test("content above 64 KiB is refused, at once if announced, otherwise when it has arrived")
    func largeContent() throws {
        let served = try TestAdministration()
        let announced = try served.exchange(
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 65537\r\n"
                + "Connection: close\r\n\r\n")
        #expect(try TestAdministration.parse(announced).status == 413)
        let chunk = "1000\r\n\(String(repeating: " ", count: 4096))\r\n"
        let chunked = try served.exchange(
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n" + String(repeating: chunk, count: 17) + "0\r\n\r\n")
        #expect(try TestAdministration.parse(chunked).status == 413)
        // The content has exactly the permitted length and is refused for its form.
        let content = String(repeating: " ", count: 64 * 1024)
        #expect(try served.refusal("POST /devices", content: content) == "400 bad_request")
    }

    @Test("content is refused where none belongs, and when it has another type")
    func content() throws {
        let served = try TestAdministration()
        #expect(try served.refusal("GET /devices", content: "{}") == "400 bad_request")
        #expect(try served.refusal("POST /devices/1/revoke", content: "{}") == "400 bad_request")
        for type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
            #expect(
                try served.refusal("POST /devices", fields: "Content-Type: \(type)\r\n", content: "{}")
                    == "415 media_type_unsupported")
        }
    }

    @Test("a client that expects 100 (Continue) is asked for its content")
    func expectation() throws {
        let served = try TestAdministration()
        let client = try RawClient(loop: try Loop(), socketPath: served.socketPath)
        client.send(
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
                + "Expect: 100-continue\r\nConnection: close\r\n\r\n")
        #expect(client.run { $0.received == "HTTP/1.1 100 Continue\r\n\r\n" })
        client.send("{}")
        #expect(client.run())
        #expect(client.received.contains("HTTP/1.1 400 "))
    }

    @Test(
        "a client that expects 100 (Continue) and is refused receives only the refusal",
        arguments: [("PUT /devices", "405"), ("POST /nowhere", "404"), ("POST /devices/1/revoke", "400")])
    func refusedExpectation(_ line: String, _ status: String) throws {
        let served = try TestAdministration()
        let answer = try served.exchange(
            "\(line) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
                + "Expect: 100-continue\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
        #expect(answer.contains("Connection: close\r\n"))
        #expect(!answer.contains("100 Continue"))
    }

    @Test(
        "a slow client is not waited for",
        arguments: [
            "GET /dev",
            "POST /devices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
        ])
    func slow(_ start: String) throws {
        let served = try TestAdministration(change: { settings in
            settings.headTimeout = .milliseconds(50)
            settings.contentIdleTimeout = .milliseconds(50)
            settings.lingerTimeout = .milliseconds(50)
        })
        #expect(try TestAdministration.parse(try served.exchange(start)).status == 408)
    }

    @Test("idle connections, and those above the limit, are closed")
    func idle() throws {
        let served = try TestAdministration(change: { settings in
            // The last of all is answered and has the same time to begin.
            settings.keepAliveTimeout = .seconds(2)
            settings.connections = 2
        })
        let loop = try Loop()
        let clients = try (0..<3).map { _ in try RawClient(loop: loop, socketPath: served.socketPath) }
        for client in clients { #expect(client.run()) }
        #expect(clients.allSatisfy { $0.received.isEmpty })
        #expect(try served.ask("GET /devices").status == 200)
    }

    @Test("one connection serves several requests")
    func kept() throws {
        let served = try TestAdministration()
        let client = try RawClient(loop: try Loop(), socketPath: served.socketPath)
        let request = "GET /devices HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.send(request + request)
        #expect(client.run { $0.received.components(separatedBy: "\"next\":null}\n").count == 3 })
        client.close()
    }

    @Test("the server survives clients that leave before their answer")
    func leaving() throws {
        let served = try TestAdministration()
        for _ in 0..<50 {
            let client = try RawClient(loop: try Loop(), socketPath: served.socketPath)
            client.send("GET /devices HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.close()
        }
        #expect(try served.ask("GET /devices").status == 200)
    }
}

@Suite("Refused clients of the administration")
struct AdministrationRefusalsTests {
    private final class Log {
        var lines: [String] = []
    }

    private static func minute(_ minute: Int64) -> Instant { Instant(nanoseconds: minute * 60_000_000_000 + 5) }

    @Test("refused clients are counted by reason and logged with their address")
    func counted() {
        let log = Log()
        let refusals = AdministrationRefusals { log.lines.append($0) }
        refusals.add(.token, "192.0.2.7", at: "198.51.100.1:9464", Self.minute(1))
        refusals.add(.host, "user 1000", at: "the socket", Self.minute(1))
        refusals.add(.token, "192.0.2.8", at: "198.51.100.1:9464", Self.minute(2))
        #expect(refusals.count(of: .token) == 2 && refusals.count(of: .host) == 1 && refusals.count(of: .origin) == 0)
        #expect(
            log.lines == [
                "refused 192.0.2.7 at 198.51.100.1:9464: the token is missing or wrong",
                "refused user 1000 at the socket: the Host field is not a name of the listener",
                "refused 192.0.2.8 at 198.51.100.1:9464: the token is missing or wrong",
            ])
    }

    @Test("refused clients cannot flood the log: omitted lines are counted, and the next line reports them")
    func flood() {
        let log = Log()
        let refusals = AdministrationRefusals(linesPerMinute: 3) { log.lines.append($0) }
        for _ in 0..<1_000 { refusals.add(.token, "192.0.2.7", at: "door", Self.minute(1)) }
        #expect(log.lines.count == 3)
        for _ in 0..<2 { refusals.add(.origin, "192.0.2.7", at: "door", Self.minute(2)) }
        #expect(log.lines.count == 5)
        #expect(log.lines[3].hasSuffix("so it comes from a web page; 997 others since the previous line"))
        #expect(log.lines[4].hasSuffix("so it comes from a web page"))
        #expect(refusals.count(of: .token) == 1_000 && refusals.count(of: .origin) == 2)
    }
}

@Suite("The administration token")
struct AdministrationTokenTests {
    private static let text = String(repeating: "aB3-", count: 8)

    @Test("the token is the text of its file without surrounding white space")
    func trimming() throws {
        let token = try #require(AdministrationToken(Array(" \(Self.text)\r\n".utf8)))
        #expect(token == AdministrationToken(Array(Self.text.utf8)))
        #expect(token.isMeant(by: "Bearer \(Self.text)"))
    }

    @Test(
        "a token that is too short, too long or not one printable word is refused",
        arguments: [
            "", "\n", String(text.dropLast()), String(repeating: "a", count: 1_025), "\(text) \(text)", "\(text)\u{7F}",
            "ä\(text)",
        ])
    func refused(_ text: String) {
        #expect(AdministrationToken(Array(text.utf8)) == nil)
    }

    @Test(
        "only the exact bearer token matches",
        arguments: [
            "", "Bearer", "Bearer ", text, "Basic \(text)", "Bearer  \(text)", "Bearer \(text.dropLast())",
            "Bearer \(text)x", "Bearer \(text) ", "Bearer\t\(text)",
        ])
    func others(_ credentials: String) throws {
        let token = try #require(AdministrationToken(Array(Self.text.utf8)))
        #expect(!token.isMeant(by: credentials))
    }
}
