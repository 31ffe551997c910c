import EventLoop
import Foundation
import Glibc
import TestVectors
import Testing
import Vocabulary

@testable import Gateway
@testable import Telemetry

@Suite("The access log")
struct AccessLogTests {
    /// What a log wrote of these entries, without the times.
    private func written(
        _ entries: [AccessLog.Entry], settings: AccessLog.Settings = AccessLog.Settings()
    ) throws -> [String] {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        let loop = try Loop()
        let log = AccessLog(
            loop: loop, writer: writer, settings: settings, routes: ["other", "records"],
            upstreams: [("other", ["a:1"]), ("service", ["b:1", "b:2"])],
            listeners: ["0.0.0.0:1", "[::1]:2"])
        for var entry in entries {
            if entry.trace != .none { entry.client = log.client(try SocketAddress("192.0.2.7:4711")) }
            log.record(entry)
        }
        log.finish()
        writer.stop()
        let lines = try directory.lines()
        let start = settings.isJSON ? "{\"time\":\"2026-11-21T07:12:11.209Z\"".count : "2026-11-21T07:12:11.209Z".count
        return lines.map { String($0.dropFirst(start)) }
    }

    private func written(_ entry: AccessLog.Entry, isJSON: Bool = true) throws -> String {
        var settings = AccessLog.Settings()
        settings.isJSON = isJSON
        let lines = try written([entry], settings: settings)
        return try #require(lines.first)
    }

    private static let trace = TraceContext(
        id: TraceID(high: 1, low: 2), request: 3, flags: 1, parent: 4, isRecorded: false)

    private static var full: AccessLog.Entry {
        var entry = AccessLog.Entry(
            trace: trace, route: 1, method: .post, decision: .forwarded,
            status: 502, denial: .upstreamUnavailable, detail: "a \"quoted\"\nreason",
            device: DeviceLabel(id: 0xab, app: Array("TEAMID1234.org.example".utf8)), upstream: 1, server: 1,
            requestBytes: 5, responseBytes: 7, isAborted: true)
        entry.timings.handshake = TimeSpan(nanoseconds: 1_999)
        entry.timings.verification = TimeSpan(nanoseconds: 2_000)
        entry.timings.commit = TimeSpan(nanoseconds: 3_000)
        entry.timings.upstream = TimeSpan(nanoseconds: 4_000)
        entry.timings.total = .seconds(5)
        entry.keyExchange = .hybrid
        entry.listener = 1
        entry.host = Array("records.example".utf8)
        entry.disclosed.clientAddress = Array("192.0.2.7".utf8)
        entry.disclosed.path = Array("/a\"b".utf8)
        entry.disclosed.query = Array("c\\d".utf8)
        entry.disclosed.userAgent = [0x61, 0x09, 0xff, 0x7f]
        entry.disclosed.requestedHost = Array("h\"".utf8)
        return entry
    }

    @Test("a JSON line has every member in its place")
    func everyMember() throws {
        #expect(
            try written(Self.full)
                == #","event":"request","client":"192.0.2.0/24","client_address":"192.0.2.7","#
                + #""listener":"[::1]:2","host":"records.example","#
                + #""request_id":"0000000000000003","trace_id":"00000000000000010000000000000002","route":"records","#
                + #""method":"POST","requested_host":"h\"","path":"/a\"b","query":"c\\d","user_agent":"a\u0009\u00ff\u007f","#
                + #""decision":"forwarded","status":502,"denial":"upstream_unavailable","fault":"upstream","#
                + #""detail":"a \"quoted\"\u000areason","device":"00000000000000ab","app":"TEAMID1234.org.example","#
                + #""upstream":"service","server":"b:2","request_bytes":5,"response_bytes":7,"handshake_us":1,"#
                + #""key_exchange":"X25519MLKEM768","verification_us":2,"commit_us":3,"upstream_us":4,"duration_us":5000000,"aborted":true}"#
        )
    }

    @Test("a text line has the same members")
    func console() throws {
        #expect(
            try written(Self.full, isJSON: false)
                == #" request client=192.0.2.0/24 client_address=192.0.2.7 "#
                + #"listener=[::1]:2 host=records.example request_id=0000000000000003 "#
                + #"trace_id=00000000000000010000000000000002 route=records method=POST requested_host="h\"" path="/a\"b" query="c\\d" "#
                + #"user_agent="a\u0009\u00ff\u007f" decision=forwarded status=502 denial=upstream_unavailable "#
                + #"fault=upstream detail="a \"quoted\"\u000areason" device=00000000000000ab "#
                + #"app=TEAMID1234.org.example upstream=service server=b:2 request_bytes=5 response_bytes=7 handshake_us=1 "#
                + #"key_exchange=X25519MLKEM768 verification_us=2 commit_us=3 upstream_us=4 duration_us=5000000 aborted=true"#
        )
    }

    @Test("absent values have no member")
    func bare() throws {
        let entry = AccessLog.Entry(event: "accept_paused", detail: "Too many open files")
        #expect(try written(entry) == #","event":"accept_paused","detail":"Too many open files"}"#)
    }

    @Test("a reason contains no line end or direction mark", arguments: [true, false])
    func plainDetail(isJSON: Bool) throws {
        let entry = AccessLog.Entry(event: "accept_paused", detail: "a\u{85}b\u{2028}c\u{202e}d\u{2066}é")
        #expect(try written(entry, isJSON: isJSON).contains("\"a b c d é\""))
    }

    @Test("the longest client network fits", arguments: [true, false])
    func longestClient(isJSON: Bool) throws {
        var settings = AccessLog.Settings()
        settings.isJSON = isJSON
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        let log = AccessLog(
            loop: try Loop(), writer: writer, settings: settings, routes: [], upstreams: [], listeners: [])
        let client = try SocketAddress("[2001:db81:ffff:ffff:ffff:ffff:ffff:ffff]:1")
        log.record(AccessLog.Entry(client: log.client(client)))
        log.finish()
        writer.stop()
        let value = isJSON ? "\"client\":\"2001:db81:ffff::/48\"" : " client=2001:db81:ffff::/48"
        #expect(try directory.lines().first?.contains(value) == true)
    }

    @Test("a slow writer receives only full blocks", .timeLimit(.minutes(1)))
    func behind() throws {
        let directory = try LogDirectory()
        mkfifo(directory.file, 0o600)
        let reader = open(directory.file, O_RDONLY | O_NONBLOCK)
        defer { close(reader) }
        let writer = try LogWriter(.file(directory.file))
        let log = AccessLog(
            loop: try Loop(), writer: writer, settings: AccessLog.Settings(), routes: [], upstreams: [], listeners: [])
        // More than the pipe takes, so that it waits.
        while !writer.isBehind { writer.post([UInt8](repeating: 0x20, count: 100_000)) }
        let waiting = writer.waitingBytes
        for _ in 0..<10 {
            log.record(AccessLog.Entry())
            log.handOverInTime()
        }
        #expect(writer.waitingBytes <= waiting)
        for _ in 0..<20_000 { log.record(AccessLog.Entry()) }
        #expect(writer.waitingBytes > waiting)
        #expect(writer.droppedInAll == 0)
        writer.stop()
    }

    @Test("a negative duration is left out")
    func negative() throws {
        var entry = AccessLog.Entry()
        entry.timings.upstream = TimeSpan(nanoseconds: -5_000)
        #expect(try written(entry) == #","event":"request","upstream_us":0}"#)
    }

    @Test("every line is JSON with a time, whatever a client sent")
    func anyBytes() throws {
        var entry = Self.full
        entry.disclosed.userAgent = Array(UInt8.min...UInt8.max)
        entry.detail = String(decoding: UInt8.min...UInt8.max, as: UTF8.self)
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        let log = AccessLog(
            loop: try Loop(), writer: writer, settings: AccessLog.Settings(), routes: ["other", "records"],
            upstreams: [("other", ["a:1"]), ("service", ["b:1", "b:2"])],
            listeners: ["0.0.0.0:1", "[::1]:2"])
        log.record(entry)
        log.finish()
        writer.stop()
        let line = try #require(try directory.lines().first)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        let agent = String(String.UnicodeScalarView((UInt8.min...UInt8.max).map { Unicode.Scalar($0) }))
        #expect(object["user_agent"] as? String == agent)
        let time = try #require(object["time"] as? String)
        #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil)
    }

    @Test("the longest line fits, and all lines of many blocks are written")
    func long() throws {
        var entry = Self.full
        let long = [UInt8](repeating: 0xff, count: 30_000)
        entry.disclosed.path = long
        entry.disclosed.query = long
        entry.disclosed.userAgent = long
        entry.detail = String(repeating: "\u{1}", count: 30_000)
        let lines = try written([AccessLog.Entry](repeating: entry, count: 10))
        #expect(lines.count == 10)
        let cut = String(repeating: "\\u00ff", count: 1_024)
        #expect(lines.allSatisfy { $0.contains("\"path\":\"\(cut)\",") && $0.hasSuffix("\"aborted\":true}") })
    }

    @Test("forwarded requests are sampled; refused and aborted ones are all logged")
    func sample() throws {
        var settings = AccessLog.Settings()
        settings.sample = 3
        let entries = (UInt64(1)...9).flatMap { id -> [AccessLog.Entry] in
            let trace = TraceContext(id: TraceID(high: 0, low: 1), request: id, flags: 0, parent: 4, isRecorded: false)
            return [
                AccessLog.Entry(trace: trace, decision: .forwarded, status: 200),
                AccessLog.Entry(trace: trace, decision: .denied, status: 403, denial: .deviceRevoked),
                AccessLog.Entry(trace: trace, isAborted: true),
            ]
        }
        let lines = try written(entries, settings: settings)
        #expect(lines.filter { $0.contains(":200") }.count == 3)
        #expect(lines.filter { $0.contains("device_revoked") }.count == 9)
        #expect(lines.filter { $0.contains("aborted") }.count == 9)
    }

    @Test("refusals above the bound are counted, and the count is complete")
    func suppression() throws {
        var settings = AccessLog.Settings()
        settings.refusalsPerSecond = 2
        let refused = AccessLog.Entry(denial: .deviceRevoked)
        let lines = try written([AccessLog.Entry](repeating: refused, count: 50), settings: settings)
        let counts = lines.compactMap { line in
            line.wholeMatch(of: /,"event":"suppressed","lines":(\d+)}/).flatMap { Int($0.1) }
        }
        let refusalCount = lines.filter { $0.contains("device_revoked") }.count
        #expect(refusalCount >= 2 && refusalCount + counts.reduce(0, +) == 50)
        #expect(!counts.isEmpty)
    }
}

@Suite("The limit on refusal log lines")
struct RefusalBudgetTests {
    @Test("refusals per second are limited, and omitted ones are reported after it")
    func bound() {
        var budget = RefusalBudget(limit: 2)
        let first = (0..<5).map { _ in budget.admits(at: 7) }
        #expect(first == [true, true, false, false, false])
        #expect(budget.owesCount)
        let early = budget.takeSuppressed(at: 7)
        #expect(early == nil, "more may come")
        let counts = [budget.takeSuppressed(at: 8), budget.takeSuppressed(at: 8)]
        #expect(counts == [3, nil] && !budget.owesCount)
        let second = (0..<3).map { _ in budget.admits(at: 8) }
        #expect(second == [true, true, false])
    }

    @Test("a clock that is set back begins a new second")
    func clock() {
        var budget = RefusalBudget(limit: 1)
        let admitted = [100, 100, 50].map { budget.admits(at: $0) }
        #expect(admitted == [true, false, true])
        let count = budget.takeSuppressed(at: 51)
        #expect(count == 1)
    }
}
