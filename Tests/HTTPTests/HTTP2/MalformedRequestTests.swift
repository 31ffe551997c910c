import HTTP
import Testing

/// Requests that are malformed by RFC 9113 section 8 or for HTTP/1.1's parser. The service sees nothing of them.
@Suite("HTTP/2 server: malformed requests")
struct MalformedRequestTests {
    typealias Fields = [(String, String)]

    static let line: Fields = [
        (":method", "GET"), (":scheme", "https"), (":authority", "health.example"), (":path", "/"),
    ]

    static func with(_ name: String, _ value: String) -> Fields {
        line.map { $0.0 == name ? (name, value) : $0 }
    }

    static func without(_ name: String) -> Fields { line.filter { $0.0 != name } }

    static let pseudoFieldCases: [(Fields, MessageFault)] = [
        (without(":method"), MessageFault.pseudoFieldMissing), (without(":scheme"), .pseudoFieldMissing),
        (without(":path"), .pseudoFieldMissing), (without(":authority"), .hostMissing),
        (line + [(":method", "GET")], .pseudoFieldRepeated), (line + [(":scheme", "https")], .pseudoFieldRepeated),
        (line + [(":path", "/")], .pseudoFieldRepeated),
        (line + [(":authority", "health.example")], .pseudoFieldRepeated),
        (line + [(":status", "200")], .pseudoFieldUnknown), (line + [(":test", "x")], .pseudoFieldUnknown),
        (line + [(":", "x")], .pseudoFieldUnknown), (line + [("x", "y"), (":path", "/")], .pseudoFieldLate),
        ([("x", "y")] + line, .pseudoFieldLate), (with(":scheme", "http"), .schemeUnsupported),
        (with(":scheme", "HTTPS"), .schemeUnsupported), (with(":method", ""), .requestLineMalformed),
        (with(":method", "GET /x"), .requestLineMalformed), (with(":method", "CONNECT"), .connectUnsupported),
        (with(":method", "GET\r\nHost: a"), .requestLineMalformed),
    ]

    @Test(
        "malformed pseudo-header fields are refused (section 8.3)",
        arguments: pseudoFieldCases)
    func pseudoFields(_ fields: Fields, _ fault: MessageFault) {
        #expect(HTTP2RequestTests.fault(fields) == fault)
    }

    static let targetCases: [(String, MessageFault)] = [
        ("", MessageFault.targetForm), ("*", .targetForm), ("https://health.example/", .targetForm),
        ("a", .targetForm),
        ("//", .pathSpelling), ("/a//b", .pathSpelling), ("/a/../b", .pathSpelling), ("/a;b", .pathSpelling),
        ("/a%2Fb", .pathSpelling), ("/%2e%2e/a", .pathSpelling), ("/a%41", .pathSpelling), ("/a#b", .pathSpelling),
        ("/a b", .pathSpelling), ("/a\r\nb", .pathSpelling), ("/a\0", .pathSpelling), ("/a?", .querySpelling),
        ("/a?b=%00", .querySpelling), ("/a?b c", .querySpelling), ("/a HTTP/1.1\r\nx: y", .pathSpelling),
        ("/" + String(repeating: "a", count: 9000), .targetTooLong),
    ]

    @Test(
        "second spellings of a target are refused",
        arguments: targetCases)
    func targets(_ path: String, _ fault: MessageFault) {
        #expect(HTTP2RequestTests.fault(Self.with(":path", path)) == fault)
    }

    @Test(
        "an authority is a host with an optional port and no user information",
        arguments: [
            "", "root@health.example", "health.example/", "a, b", "health.example.", "health.example:0", "a:65536",
            "a:",
            "a b", "a\r\nx: y", "a\0", "[::1", "a#b", "a?b", "a\\b",
        ])
    func authorities(_ authority: String) {
        #expect(HTTP2RequestTests.fault(Self.with(":authority", authority)) == .hostMalformed)
        #expect(HTTP2RequestTests.fault(Self.without(":authority") + [("host", authority)]) != nil)
    }

    static let fieldCases: [(String, String, MessageFault)] = [
        ("Accept", "x", MessageFault.fieldNameUpperCase), ("accepT", "x", .fieldNameUpperCase),
        ("", "x", .fieldNameMalformed), ("a b", "x", .fieldNameMalformed), ("a:b", "x", .fieldNameMalformed),
        ("a\0", "x", .fieldNameMalformed), ("a\n", "x", .fieldNameMalformed), ("a\u{e4}", "x", .fieldNameMalformed),
        ("a_b", "x", .fieldNameUnusual), ("a.b", "x", .fieldNameUnusual),
        ("a!b", "x", .fieldNameUnusual), ("a~", "x", .fieldNameUnusual), ("`a", "x", .fieldNameUnusual),
        ("x", "a\0b", .fieldValueMalformed),
        ("x", "a\rb", .fieldValueMalformed), ("x", "a\nb", .fieldValueMalformed),
        ("x", "a\r\nhost: b", .fieldValueMalformed), ("x", " a", .fieldValueMalformed),
        ("x", "a ", .fieldValueMalformed), ("x", "\ta", .fieldValueMalformed), ("x", "a\t", .fieldValueMalformed),
        ("x", "\u{7f}", .fieldValueMalformed), ("x", "\u{1}", .fieldValueMalformed),
        ("cookie", "a\0", .fieldValueMalformed), ("connection", "close", .fieldOfConnection),
        ("connection", "keep-alive", .fieldOfConnection), ("keep-alive", "1", .fieldOfConnection),
        ("proxy-connection", "close", .fieldOfConnection), ("transfer-encoding", "chunked", .fieldOfConnection),
        ("transfer-encoding", "identity", .fieldOfConnection), ("upgrade", "h2c", .fieldOfConnection),
        ("te", "gzip", .fieldOfConnection), ("te", "trailers, deflate", .fieldOfConnection),
        ("te", "", .fieldOfConnection), ("expect", "200-ok", .expectationUnknown),
        ("content-length", "5", .contentLengthDisagrees), ("content-length", "05", .contentLengthMalformed),
        ("content-length", "+5", .contentLengthMalformed), ("content-length", "-1", .contentLengthMalformed),
        ("content-length", "5, 5", .contentLengthMalformed), ("content-length", "", .contentLengthMalformed),
        ("content-length", "18446744073709551621", .contentLengthMalformed),
    ]

    @Test(
        "malformed fields are refused (section 8.2)",
        arguments: fieldCases)
    func fields(_ name: String, _ value: String, _ fault: MessageFault) {
        #expect(HTTP2RequestTests.fault(Self.line + [(name, value)]) == fault)
    }

    @Test("TE: trailers is accepted")
    func trailersAdmitted() {
        #expect(HTTP2RequestTests.fault(Self.line + [("te", "trailers")]) == nil)
    }

    @Test(
        "a singleton field is refused when repeated",
        arguments: ["content-type", "authorization", "date", "if-match", "origin", "range", "referer", "user-agent"])
    func singletons(_ name: String) {
        #expect(HTTP2RequestTests.fault(Self.line + [(name, "x"), (name, "x")]) == .fieldRepeated)
        #expect(HTTP2RequestTests.fault(Self.line + [(name, "x")]) == nil)
    }

    @Test("two Content-Length fields are refused, even if equal")
    func lengths() {
        #expect(
            HTTP2RequestTests.fault(Self.line + [("content-length", "0"), ("content-length", "0")])
                == .contentLengthRepeated)
    }

    @Test(
        "content of another length than Content-Length is refused",
        arguments: [
            (["hell"], "5"), (["hello!"], "5"), (["hel", "lo", "!"], "5"), (["h", "e", "l", "l"], "5"), ([""], "5"),
        ])
    func contentLength(_ pieces: [String], _ length: String) {
        let peer = HTTP2Peer()
        peer.send(.post(1, [("content-length", length)]))
        for (index, piece) in pieces.enumerated() { peer.send(.data(1, piece, end: index == pieces.count - 1)) }
        #expect(peer.record.events == ["1 POST health.example / length(5)", "1 fault contentLengthDisagrees"])
        // In no case was it complete.
        #expect(peer.record.content.count <= 4)
    }

    @Test("a head above the limits of size, number of fields or decoded size is refused")
    func sizes() {
        let large = (0..<16).map { ("x-\($0)", String(repeating: "a", count: 1000)) }
        #expect(HTTP2RequestTests.fault(Self.line + large) == .headTooLarge)
        let many = (0..<101).map { ("x-\($0)", "a") }
        #expect(HTTP2RequestTests.fault(Self.line + many) == .tooManyFields)
        #expect(HTTP2RequestTests.fault(Self.line + many.dropLast()) == nil)
        // RFC 9113 section 6.5.2 counts 32 bytes for each field.
        var limits = HTTP2Limits()
        limits.headerList = 1024
        let small = (0..<30).map { ("x-\($0)", "a") }
        #expect(HTTP2RequestTests.fault(Self.line + small, limits) == .headTooLarge)
    }

    @Test("a malformed request is answered, then reset, and does not affect other streams")
    func answer() throws {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.answer(400, "no") }
        peer.send(.headers(1, Self.line + [("X", "y")], end: false), .data(1, "later"), .get(3))
        let frames = peer.frames().filter { $0.stream == 1 }
        #expect(frames.map(\.kind) == [.headers, .data, .reset])
        #expect(peer.fields(frames[0]) == [":status: 400", "content-type: text/plain"])
        #expect(frames[1].endsStream)
        #expect(frames[2].number() == HTTP2ErrorCode.protocolError.rawValue)
        #expect(
            peer.record.events == [
                "1 fault fieldNameUpperCase", "3 GET health.example / none", "3 end", "1 ended",
            ])
        #expect(peer.record.content.isEmpty)
        #expect(peer.fault == nil)
    }

    @Test("a malformed request that has ended is reset too, in a write behind its response")
    func answerOfEnded() {
        let peer = HTTP2Peer()
        peer.record.onFault = { $0.answer(400, "no") }
        peer.record.onEnd = { $0.answer(200) }
        peer.send(.headers(1, Self.line + [("X", "y")]))
        #expect(peer.oneWrite() == [.headers, .data])
        #expect(peer.session.hasOutput)
        // The object serves the next request by then.
        peer.send(.get(3))
        #expect(peer.record.streams.count == 1)
        let frames = peer.frames()
        #expect(frames.filter { $0.kind == .reset }.map { [$0.stream, $0.number()] } == [[1, 1]])
        #expect(frames.contains { $0.stream == 3 && $0.endsStream })
        #expect(
            peer.record.events == [
                "1 fault fieldNameUpperCase", "1 ended", "3 GET health.example / none", "3 end", "3 ended",
            ])
        #expect(!peer.session.hasOutput)
        #expect(peer.fault == nil)
    }

    @Test("a request that is refused for a field or its size is not reset as malformed", arguments: [true, false])
    func refusals(end: Bool) {
        let many = (0..<101).map { ("x-\($0)", "a") }
        for refused in [[("range", "a"), ("range", "a")], many] {
            let peer = HTTP2Peer()
            peer.record.onFault = { $0.answer(431) }
            peer.send(.headers(1, Self.line + refused, end: end))
            let codes = peer.frames().filter { $0.kind == .reset }.map { $0.number() }
            #expect(codes == (end ? [] : [HTTP2ErrorCode.noError.rawValue]))
        }
    }
}
