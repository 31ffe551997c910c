import HTTP
import Testing

/// Responses that are malformed by RFC 9113 section 8 or for HTTP/1.1's parser.
@Suite("HTTP/2 client: malformed responses")
struct MalformedResponseTests {
    typealias Fields = [(String, String)]

    /// Returns the fault of a response with these fields, or nil.
    static func fault(
        _ fields: Fields, method: Method = .get, end: Bool = false, limits: HTTP2Limits = .client(),
        then frames: Frame...
    ) throws -> MessageFault? {
        let peer = HTTP2ClientPeer(limits)
        _ = try peer.sendRequest(method)
        peer.send(.headers(1, fields, end: end))
        for frame in frames { peer.send(frame) }
        guard
            let fault = MessageFault.allCases.first(where: {
                peer.record.events.contains("1 failed malformed(HTTP.MessageFault.\($0))")
            })
        else { return nil }
        // Only the stream is reset, and no end was reported.
        let reset = peer.frames().filter { $0.stream == 1 }
        #expect(reset == [.reset(1, HTTP2ErrorCode.protocolError.rawValue)])
        #expect(!peer.record.events.contains("1 end"))
        #expect(peer.record.events.last == "1 ended")
        #expect(peer.fault == nil)
        #expect(peer.session.capacity == 100)
        #expect(peer.pool.outstanding == 0)
        return fault
    }

    static let headCases: [(Fields, MessageFault)] = [
        ([], MessageFault.pseudoFieldMissing), ([("x", "y")], .pseudoFieldMissing),
        ([(":status", "200"), (":status", "200")], .pseudoFieldRepeated),
        ([("x", "y"), (":status", "200")], .pseudoFieldLate),
        ([(":status", "200"), ("x", "y"), (":status", "200")], .pseudoFieldLate),
        ([(":status", "200"), (":path", "/")], .pseudoFieldUnknown),
        ([(":method", "GET"), (":status", "200")], .pseudoFieldUnknown), ([(":Status", "200")], .pseudoFieldUnknown),
        ([(":status", "")], .statusLineMalformed), ([(":status", "20")], .statusLineMalformed),
        ([(":status", "2000")], .statusLineMalformed), ([(":status", "099")], .statusLineMalformed),
        ([(":status", "600")], .statusLineMalformed), ([(":status", "+20")], .statusLineMalformed),
        ([(":status", "2OO")], .statusLineMalformed), ([(":status", "200 OK")], .statusLineMalformed),
        ([(":status", " 20")], .statusLineMalformed), ([(":status", "101")], .protocolSwitched),
    ]

    @Test("pseudo-header fields other than one leading :status are refused (section 8.3.2)", arguments: headCases)
    func heads(_ fields: Fields, _ fault: MessageFault) throws {
        #expect(try Self.fault(fields) == fault)
        #expect(try Self.fault(fields, end: true) == fault)
    }

    static let fieldCases: [(String, String, MessageFault)] = [
        ("Server", "x", MessageFault.fieldNameUpperCase), ("serveR", "x", .fieldNameUpperCase),
        ("", "x", .fieldNameMalformed), ("a b", "x", .fieldNameMalformed), ("a:b", "x", .fieldNameMalformed),
        ("a\0", "x", .fieldNameMalformed), ("a\r\nb", "x", .fieldNameMalformed), ("a\u{e4}", "x", .fieldNameMalformed),
        ("x", "a\0b", .fieldValueMalformed), ("x", "a\rb", .fieldValueMalformed), ("x", "a\nb", .fieldValueMalformed),
        ("x", "a\r\nset-cookie: b", .fieldValueMalformed), ("x", " a", .fieldValueMalformed),
        ("x", "a\t", .fieldValueMalformed), ("x", "\u{7f}", .fieldValueMalformed),
        ("connection", "close", .fieldOfConnection), ("keep-alive", "1", .fieldOfConnection),
        ("proxy-connection", "close", .fieldOfConnection), ("transfer-encoding", "chunked", .fieldOfConnection),
        ("upgrade", "h2c", .fieldOfConnection), ("te", "gzip", .fieldOfConnection),
        ("content-length", "05", .contentLengthMalformed), ("content-length", "+5", .contentLengthMalformed),
        ("content-length", "5, 5", .contentLengthMalformed), ("content-length", "", .contentLengthMalformed),
        ("content-length", "18446744073709551621", .contentLengthMalformed),
    ]

    @Test("malformed fields are refused in heads, interim heads and trailers (section 8.2)", arguments: fieldCases)
    func fields(_ name: String, _ value: String, _ fault: MessageFault) throws {
        #expect(try Self.fault([(":status", "200"), (name, value)]) == fault)
        #expect(try Self.fault([(":status", "103"), (name, value)]) == fault)
        let inTrailers = name == "content-length" ? .trailerNamesFraming : fault
        #expect(try Self.fault([(":status", "200")], then: .headers(1, [(name, value)])) == inTrailers)
    }

    static let lengthCases: [(Fields, Method, Bool, [Frame], MessageFault)] = [
        ([("content-length", "5"), ("content-length", "5")], .get, false, [], MessageFault.contentLengthRepeated),
        ([("content-length", "5")], .get, true, [], .contentLengthDisagrees),
        ([("content-length", "5")], .get, false, [.data(1, "hell", end: true)], .contentLengthDisagrees),
        ([("content-length", "5")], .get, false, [.data(1, "hello!")], .contentLengthDisagrees),
        ([("content-length", "5")], .get, false, [.data(1, "hello"), .data(1, "!")], .contentLengthDisagrees),
        (
            [("content-length", "5")], .get, false, [.data(1, "hell"), .headers(1, [("x", "y")])],
            .contentLengthDisagrees
        ),
        ([("content-length", "0")], .get, false, [.data(1, "x", end: true)], .contentLengthDisagrees),
        ([("content-length", "5")], .head, false, [.data(1, "hello", end: true)], .contentImpossible),
        ([], .head, false, [.data(1, "x")], .contentImpossible),
    ]

    @Test("content of another length than stated, or where none may be, is refused", arguments: lengthCases)
    func lengths(
        _ fields: Fields, _ method: Method, _ end: Bool, _ frames: [Frame], _ fault: MessageFault
    ) throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest(method)
        peer.send(.response(1, "200", fields, end: end))
        for frame in frames { peer.send(frame) }
        #expect(peer.record.events.contains("1 failed malformed(HTTP.MessageFault.\(fault))"))
        // In no case was it complete.
        #expect(peer.record.content.count <= 4)
        #expect(!peer.record.events.contains("1 end"))
    }

    @Test("statuses without content neither announce nor have any", arguments: ["204", "304"])
    func noContent(_ status: String) throws {
        #expect(try Self.fault([(":status", status)], then: .data(1, "x", end: true)) == .contentImpossible)
        let announced = try Self.fault([(":status", status), ("content-length", "5")], end: true)
        #expect(announced == (status == "204" ? .contentImpossible : nil))
    }

    @Test("interim responses do not end, need a final response, and are limited")
    func interim() throws {
        let interim = [(":status", "100")]
        #expect(try Self.fault(interim, end: true) == .headMissing)
        #expect(try Self.fault(interim, then: .data(1, "x")) == .headMissing)
        #expect(try Self.fault(interim, then: .data(1, end: true)) == .headMissing)
        #expect(try Self.fault(interim + [("content-length", "5")]) == .contentImpossible)
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        for _ in 0..<16 { peer.send(.response(1, "103")) }
        #expect(peer.record.events.isEmpty)
        peer.send(.response(1, "103"))
        #expect(peer.record.events == ["1 failed malformed(HTTP.MessageFault.interimResponsesRepeated)"])
    }

    @Test("trailers end the response, without pseudo-header fields or framing")
    func trailers() throws {
        let head = [(":status", "200")]
        #expect(try Self.fault(head, then: .headers(1, [("x", "y")], end: false)) == .trailersUnended)
        #expect(try Self.fault(head, then: .headers(1, [(":status", "200")])) == .pseudoFieldLate)
        #expect(try Self.fault(head, then: .headers(1, [("x", "y"), (":path", "/")])) == .pseudoFieldLate)
        #expect(try Self.fault(head, then: .headers(1, [("host", "a")])) == .trailerNamesFraming)
    }

    @Test("heads and trailers above the limits of size, number or decoded size are refused")
    func sizes() throws {
        let head = [(":status", "200")]
        let many = (0..<101).map { ("x-\($0)", "a") }
        #expect(try Self.fault(head + many) == .tooManyFields)
        #expect(try Self.fault(head + many.dropLast()) == nil)
        #expect(try Self.fault(head, then: .headers(1, many)) == .trailerTooLarge)
        var limits = HTTP2Limits.client()
        limits.headerList = 1024
        let small = (0..<30).map { ("x-\($0)", "a") }
        #expect(try Self.fault(head + small, limits: limits) == .headTooLarge)
        #expect(try Self.fault(head, limits: limits, then: .headers(1, small)) == .trailerTooLarge)
        let large = (0..<16).map { ("x-\($0)", String(repeating: "a", count: 1000)) }
        #expect(try Self.fault(head + large) == .headTooLarge)
    }

    @Test("a malformed response does not affect other streams")
    func others() throws {
        let peer = HTTP2ClientPeer()
        _ = try peer.sendRequest()
        _ = try peer.sendRequest()
        peer.send(.response(1, "200", [("X", "y")]), .data(1, "later"), .response(3), .data(3, "fine", end: true))
        #expect(peer.record.events(of: 3) == ["200 chunked", "end", "ended"])
        #expect(String(decoding: peer.record.content, as: UTF8.self) == "fine")
    }
}
