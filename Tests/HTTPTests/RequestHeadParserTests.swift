import HTTP
import Testing

@Suite("Parsing request heads")
struct RequestHeadParserTests {
    @Test("a plain request is read into its parts")
    func plainRequest() throws {
        let text = "GET /records/7?day=2026-11-21 HTTP/1.1\r\nHost: Health.example:8443\r\nAccept: \t*/* \r\n\r\n"
        let parsed = try #require(try Parsing.request(text).get())
        #expect(parsed.method == .get)
        #expect(parsed.path == "/records/7")
        #expect(parsed.query == "day=2026-11-21")
        #expect(parsed.authority == "Health.example:8443")
        #expect(parsed.host == "Health.example")
        #expect(parsed.port == 8443)
        #expect(parsed.framing == .none)
        #expect(parsed.isPersistent)
        #expect(parsed.fields == ["Host=Health.example:8443", "Accept=*/*"])
        #expect(parsed.length == text.utf8.count)
    }

    @Test("a head has the port that its own authority states, none of an earlier head")
    func ports() throws {
        var head = RequestHead()
        for (authority, port) in [("a:65535", 65535), ("a", nil), ("[::1]:1", 1), ("[::1]", nil)] as [(String, UInt16?)]
        {
            var parser = RequestHeadParser(limits: .standard)
            _ = try parser.parse(Array("GET / HTTP/1.1\r\nHost: \(authority)\r\n\r\n".utf8).span, into: &head)
            #expect(head.port == port, "\(authority)")
        }
    }

    @Test("a head gives the same result byte by byte and at once")
    func byteByByte() throws {
        let text = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nExpect: 100-continue\r\nX: \r\n\r\n"
        #expect(Parsing.byteByByte(text) == Parsing.request(text))
        #expect(try Parsing.request(text).get()?.expectsContinue == true)
    }

    @Test("a head is not complete before its last byte")
    func incomplete() throws {
        let text = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        for count in 0..<text.count {
            #expect(try Parsing.pieces([Array(text[..<count])]).get() == nil)
        }
    }

    @Test("exactly the methods that a route can name are known", arguments: Method.allCases)
    func methods(_ method: Method) throws {
        #expect(try Parsing.request("\(method.name) / HTTP/1.1\r\nHost: a\r\n\r\n").get()?.method == method)
        let lower = String(describing: method.name).lowercased()
        #expect(try #require(try Parsing.request("\(lower) / HTTP/1.1\r\nHost: a\r\n\r\n").get()).method == nil)
    }

    @Test("the absolute form must agree with Host")
    func absoluteForm() throws {
        let same = "GET https://a:1/x HTTP/1.1\r\nHost: a:1\r\n\r\n"
        #expect(try Parsing.request(same).get()?.path == "/x")
        #expect(
            Parsing.request("GET https://b/x HTTP/1.1\r\nHost: a\r\n\r\n").failure == .targetDisagreesWithHost)
        #expect(Parsing.request("GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n").failure == .targetForm)
        #expect(Parsing.request("GET https://a HTTP/1.1\r\nHost: a\r\n\r\n").failure == .targetForm)
    }

    @Test("one traceparent is located, and several count as none")
    func traceparent() throws {
        func value(_ fields: String) throws -> String? {
            let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n".utf8)
            var parser = RequestHeadParser(limits: .standard)
            var head = RequestHead()
            _ = try parser.parse(bytes.span, into: &head)
            return head.traceparent.map { String(decoding: bytes[Int($0.start)..<Int($0.end)], as: UTF8.self) }
        }
        #expect(try value("") == nil)
        #expect(try value("TraceParent:  x \r\n") == "x")
        #expect(try value("traceparent: x\r\ntraceparent: x\r\n") == nil)
        #expect(try value("traceparent: x\r\ntraceparent: y\r\nTraceparent: z\r\n") == nil)
    }

    @Test("HTTP/1.0 keeps the connection only with keep-alive")
    func oldVersion() throws {
        func isPersistent(_ fields: String) throws -> Bool {
            let head = try Parsing.request("GET / HTTP/1.0\r\nHost: a\r\n\(fields)\r\n").get()
            return try #require(head).isPersistent
        }
        #expect(try !isPersistent(""))
        #expect(try isPersistent("Connection: Keep-Alive\r\n"))
        #expect(try !isPersistent("Connection: keep-alive, close\r\n"))
        #expect(try !isPersistent("Keep-Alive: timeout=5\r\n"))
    }

    @Test("Connection: close is recognized in any case and among other options")
    func connectionClose() throws {
        for value in ["close", "Close", "keep-alive, CLOSE", "te ,close"] {
            let parsed = try Parsing.request("GET / HTTP/1.1\r\nHost: a\r\nConnection: \(value)\r\n\r\n").get()
            #expect(parsed?.isPersistent == false, "\(value)")
        }
    }

    @Test("Connection naming a field unknown or needed by the recipient is refused")
    func connectionNames() {
        for value in ["x-location", "close, X-Location", "content-digest", "Signature-Input", "cookie", "x1"] {
            let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: \(value)\r\n\r\n"
            #expect(Parsing.request(text).failure == .connectionNamesField, "\(value)")
        }
    }

    @Test("a target of the maximum length is read in any pieces, with any method (found by fuzzing)")
    func longestLine() throws {
        let limits = HeadLimits(bytes: 2_048, target: 512, fields: 32)
        let target = "/" + String(repeating: "a", count: 511)
        for method in ["GET", "BASELINE-CONTROL", String(repeating: "M", count: 20)] {
            let text = "\(method) \(target) HTTP/1.1\r\nHost: a\r\n\r\n"
            let whole = Parsing.request(text, limits: limits)
            #expect(whole == Parsing.pieces(text.utf8.map { [$0] }, limits: limits))
            #expect(try whole.get()?.path == target)
        }
        let tooLong = String(repeating: "M", count: 21) + " / HTTP/1.1\r\nHost: a\r\n\r\n"
        #expect(Parsing.request(tooLong, limits: limits).failure == .requestLineMalformed)
        #expect(Parsing.pieces(tooLong.utf8.map { [$0] }, limits: limits).failure == .requestLineMalformed)
    }

    @Test("where unusual names are admitted, the head states them", arguments: [("X.Custom", true), ("X-1", false)])
    func unusualNames(_ name: String, _ isUnusual: Bool) throws {
        let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\n\(name): x\r\n\r\n".utf8)
        var parser = RequestHeadParser(limits: HeadLimits(bytes: 256, target: 32, fields: 3, admitsUnusualNames: true))
        var head = RequestHead()
        #expect(try parser.parse(bytes.span, into: &head) == .complete(length: bytes.count))
        #expect(head.hasUnusualNames == isUnusual)
        #expect(head.fields.map(\.hasUnusualName) == [false, isUnusual])
    }

    @Test("limits are enforced as soon as they are exceeded, not at the head's end")
    func limits() {
        let limits = HeadLimits(bytes: 256, target: 32, fields: 3)
        let longTarget = "GET /" + String(repeating: "a", count: 64)
        #expect(Parsing.request(longTarget, limits: limits).failure == .targetTooLong)
        let fields = (0..<4).map { "F\($0): x\r\n" }.joined()
        #expect(Parsing.request("GET / HTTP/1.1\r\n" + fields, limits: limits).failure == .tooManyFields)
        let long = "GET / HTTP/1.1\r\nHost: a\r\nX: " + String(repeating: "b", count: 300)
        #expect(Parsing.request(long, limits: limits).failure == .headTooLarge)
    }
}

/// An attack, or a tolerance that attacks exploit: its description, the head, and the fault.
struct MalformedHead: CustomTestStringConvertible {
    let testDescription: String
    let text: String
    let fault: MessageFault

    init(_ what: String, _ text: String, _ fault: MessageFault) {
        testDescription = what
        self.text = text
        self.fault = fault
    }

    static let requestLines: [MalformedHead] = [
        .init("an empty line before the request", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("HTTP/0.9", "GET /\r\n", .requestLineMalformed),
        .init("HTTP/2 in text", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", .versionUnsupported),
        .init("HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", .versionUnsupported),
        .init("lower-case protocol name", "GET / http/1.1\r\nHost: a\r\n\r\n", .versionUnsupported),
        .init("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("request line ended by a bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("NUL in the target", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("non-ASCII in the target", "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", .requestLineMalformed),
        .init("asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", .targetForm),
        .init("CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", .targetForm),
        .init("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", .pathSpelling),
        .init("HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", .versionUnsupported),
    ]

    static let fields: [MalformedHead] = [
        .init("space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", .spaceBeforeColon),
        .init("a folded value", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", .obsoleteLineFolding),
        .init("a first field that starts with a space", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", .obsoleteLineFolding),
        .init("bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", .bareLineFeed),
        .init("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", .bareCarriageReturn),
        .init("bare CR before the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n", .bareCarriageReturn),
        .init("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n", .fieldValueMalformed),
        .init("DEL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: \u{7f}\r\n\r\n", .fieldValueMalformed),
        .init("a line without a colon", "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", .fieldNameMalformed),
        .init("an empty name", "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", .fieldNameMalformed),
        .init("a name that is no token", "GET / HTTP/1.1\r\nHost: a\r\nX@Y: x\r\n\r\n", .fieldNameMalformed),
        .init("an underscore in a name", "GET / HTTP/1.1\r\nHost: a\r\nX_Real_IP: x\r\n\r\n", .fieldNameUnusual),
        .init("a dot in a name", "GET / HTTP/1.1\r\nHost: a\r\nX.Y: x\r\n\r\n", .fieldNameUnusual),
        .init("an exclamation mark in a name", "GET / HTTP/1.1\r\nHost: a\r\nX!Y: x\r\n\r\n", .fieldNameUnusual),
        .init("a tilde at the end of a name", "GET / HTTP/1.1\r\nHost: a\r\nX1~: x\r\n\r\n", .fieldNameUnusual),
        .init("a grave accent before a name", "GET / HTTP/1.1\r\nHost: a\r\n`X: x\r\n\r\n", .fieldNameUnusual),
        .init(
            "two Content-Types", "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\ncontent-type: c/d\r\n\r\n",
            .fieldRepeated),
        .init(
            "two Authorizations", "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nAuthorization: a\r\n\r\n",
            .fieldRepeated),
        .init(
            "two Ranges, which two readers may choose from",
            "GET / HTTP/1.1\r\nHost: a\r\nRange: a\r\nRANGE: b\r\n\r\n",
            .fieldRepeated),
        .init("a tab beside Host", "GET / HTTP/1.1\r\nHost:\ta\r\n\r\n", .fieldValueMalformed),
        .init(
            "TE.TE by a tab before the coding",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \tchunked\r\n\r\n", .fieldValueMalformed),
        .init(
            "CL.CL by a tab behind the length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 \t \r\n\r\n",
            .fieldValueMalformed),
        .init(
            "CL.0: a GET of HTTP/1.0 with content", "GET / HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            .contentUnexpected),
        .init("an unknown expectation", "GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n", .expectationUnknown),
    ]

    static let hosts: [MalformedHead] = [
        .init("no Host", "GET / HTTP/1.1\r\n\r\n", .hostMissing),
        .init("no Host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", .hostMissing),
        .init("two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", .hostRepeated),
        .init("an empty Host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", .hostMalformed),
        .init("user information in Host", "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n", .hostMalformed),
        .init("a path in Host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", .hostMalformed),
        .init("a list in Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", .hostMalformed),
        .init("a trailing dot in Host", "GET / HTTP/1.1\r\nHost: a.\r\n\r\n", .hostMalformed),
        .init("a port that is no number", "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", .hostMalformed),
        .init("a port out of range", "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", .hostMalformed),
        .init("an empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", .hostMalformed),
        .init("an unclosed bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", .hostMalformed),
    ]

    static let framing: [MalformedHead] = [
        .init(
            "Content-Length and Transfer-Encoding", head("Content-Length: 5\r\nTransfer-Encoding: chunked"),
            .contentLengthWithTransferEncoding),
        .init(
            "Transfer-Encoding and Content-Length", head("Transfer-Encoding: chunked\r\nContent-Length: 5"),
            .contentLengthWithTransferEncoding),
        .init("two equal Content-Lengths", head("Content-Length: 5\r\nContent-Length: 5"), .contentLengthRepeated),
        .init("a list in Content-Length", head("Content-Length: 5, 5"), .contentLengthMalformed),
        .init("a signed Content-Length", head("Content-Length: +5"), .contentLengthMalformed),
        .init("a hexadecimal Content-Length", head("Content-Length: 0x5"), .contentLengthMalformed),
        .init("an empty Content-Length", head("Content-Length: "), .contentLengthMalformed),
        .init("a leading zero", head("Content-Length: 05"), .contentLengthMalformed),
        .init("a length that overflows", head("Content-Length: 99999999999999999999"), .contentLengthMalformed),
        .init("a length with a space in it", head("Content-Length: 1 2"), .contentLengthMalformed),
        .init("an unknown coding", head("Transfer-Encoding: gzip"), .transferEncodingUnsupported),
        .init("gzip before chunked", head("Transfer-Encoding: gzip, chunked"), .transferEncodingUnsupported),
        .init("chunked twice", head("Transfer-Encoding: chunked, chunked"), .transferEncodingUnsupported),
        .init(
            "chunked in two fields", head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            .transferEncodingUnsupported),
        .init("identity", head("Transfer-Encoding: identity"), .transferEncodingUnsupported),
        .init("xchunked", head("Transfer-Encoding: xchunked"), .transferEncodingUnsupported),
        .init("chunked with a parameter", head("Transfer-Encoding: chunked;q=1"), .transferEncodingUnsupported),
        .init("a vertical tab before chunked", head("Transfer-Encoding: \u{b}chunked"), .fieldValueMalformed),
        .init(
            "chunked in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            .transferEncodingUnsupported),
        .init(
            "Connection names Content-Length", head("Content-Length: 5\r\nConnection: content-length"),
            .connectionNamesField),
        .init("Connection names Host", head("Connection: Host"), .connectionNamesField),
        .init("Connection names Transfer-Encoding", head("Connection: transfer-encoding"), .connectionNamesField),
        .init("Connection names Authorization", head("Connection: close, Authorization"), .connectionNamesField),
        .init("an empty element in Connection", head("Connection: close,, x"), .connectionMalformed),
        .init("a quoted string in Connection", head("Connection: \"close\""), .connectionMalformed),
    ]

    private static func head(_ fields: String) -> String { "POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n" }
}

@Suite("Malformed request heads")
struct MalformedHeadTests {
    @Test(
        "a malformed head is refused with the same fault at once and byte by byte",
        arguments: MalformedHead.requestLines + MalformedHead.fields + MalformedHead.hosts + MalformedHead.framing)
    func refused(_ head: MalformedHead) {
        #expect(Parsing.request(head.text).failure == head.fault)
        #expect(Parsing.byteByByte(head.text).failure == head.fault)
    }
}
