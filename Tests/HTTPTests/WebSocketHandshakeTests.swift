import HTTP
import Testing

/// The key of RFC 6455 section 1.3.
private let goodKey = "dGhlIHNhbXBsZSBub25jZQ=="

@Suite("WebSocket requests")
struct WebSocketHandshakeTests {
    private static let good = [
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: \(goodKey)",
    ]

    private func read(
        _ fields: [String], line: String = "GET /chat HTTP/1.1"
    ) throws -> (handshake: WebSocketHandshake, key: String?) {
        let bytes = Array(([line, "Host: localhost"] + fields + ["", ""]).joined(separator: "\r\n").utf8)
        var parser = RequestHeadParser(limits: .standard)
        var head = RequestHead()
        guard case .complete = try parser.parse(bytes.span, into: &head) else {
            Issue.record("not a whole head")
            return (.none, nil)
        }
        let handshake = WebSocketHandshake(head, bytes.span)
        guard case .valid(let key) = handshake else { return (handshake, nil) }
        return (handshake, String(decoding: bytes[key.start..<key.end], as: UTF8.self))
    }

    /// Returns the valid fields with some replaced: those whose names begin like one of the replacements.
    private func altered(_ replacements: String...) -> [String] {
        func name(_ field: String) -> Substring { field.prefix { $0 != ":" } }
        let names = Set(replacements.map(name))
        return Self.good.filter { !names.contains(name($0)) } + replacements.filter { $0.contains(":") }
    }

    @Test("a handshake of RFC 6455 is valid, and its key is returned")
    func valid() throws {
        #expect(try read(Self.good).key == goodKey)
    }

    @Test(
        "names are compared without case, and Connection may list other options",
        arguments: [
            ["Connection: keep-alive, Upgrade", "Upgrade: WebSocket"], ["Connection: upgrade", "Upgrade: WEBSOCKET"],
            ["Connection: keep-alive", "Connection: UPGRADE", "Upgrade: websocket"],
        ])
    func spellings(_ fields: [String]) throws {
        #expect(try read(fields + Self.good.suffix(2)).key == goodKey)
    }

    @Test(
        "a request for another protocol, or for none, is no WebSocket request",
        arguments: [
            [], ["Connection: Upgrade"], ["Connection: Upgrade", "Upgrade: h2c"],
            ["Connection: Upgrade", "Upgrade: TLS/1.0, websockets"], ["Sec-WebSocket-Key: \(goodKey)"],
        ])
    func none(_ fields: [String]) throws {
        #expect(try read(fields).handshake == .none)
    }

    @Test("Upgrade must be the one token websocket")
    func upgradeAlone() throws {
        for upgrade in ["h2c, websocket", "websocket, h2c", "websocket/13", "websocket,", "websocket websocket"] {
            #expect(
                try read(altered("Upgrade: \(upgrade)")).handshake == .malformed(.upgradeNotAlone), "\(upgrade)")
        }
        #expect(try read(Self.good + ["Upgrade: websocket"]).handshake == .malformed(.upgradeNotAlone))
        #expect(try read(Self.good + ["Upgrade: h2c"]).handshake == .malformed(.upgradeNotAlone))
        #expect(try read(["Upgrade: h2c"] + Self.good).handshake == .malformed(.upgradeNotAlone))
    }

    @Test("Connection must list upgrade")
    func connection() throws {
        #expect(try read(altered("Connection")).handshake == .malformed(.connectionWithoutUpgrade))
        #expect(try read(altered("Connection: close")).handshake == .malformed(.connectionWithoutUpgrade))
    }

    @Test("the request must be a GET of HTTP/1.1 without content")
    func request() throws {
        #expect(try read(Self.good, line: "POST /chat HTTP/1.1").handshake == .malformed(.notGet))
        #expect(try read(Self.good, line: "HEAD /chat HTTP/1.1").handshake == .malformed(.notGet))
        #expect(try read(Self.good, line: "GET /chat HTTP/1.0").handshake == .malformed(.notVersionOneOne))
        #expect(try read(Self.good + ["Content-Length: 1"]).handshake == .malformed(.content))
        #expect(try read(Self.good + ["Transfer-Encoding: chunked"]).handshake == .malformed(.content))
        #expect(try read(Self.good + ["Content-Length: 0"]).key == goodKey)
    }

    @Test("the version must occur once and be 13")
    func version() throws {
        #expect(try read(altered("Sec-WebSocket-Version")).handshake == .malformed(.versionCount))
        #expect(try read(Self.good + ["Sec-WebSocket-Version: 13"]).handshake == .malformed(.versionCount))
        for version in ["8", "14", "013", "13, 8", ""] {
            #expect(
                try read(altered("Sec-WebSocket-Version: \(version)")).handshake == .versionUnsupported, "\(version)")
        }
    }

    @Test("the key must occur once and be canonical base64 of 16 bytes")
    func key() throws {
        #expect(try read(altered("Sec-WebSocket-Key")).handshake == .malformed(.keyCount))
        #expect(try read(Self.good + ["Sec-WebSocket-Key: \(goodKey)"]).handshake == .malformed(.keyCount))
        let wrong = [
            "", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZR==", "dGhlIHNhbXBsZSBub25jZ2U=",
            "dGhlIHNhbXBsZSBub25=ZQ==",
            "dGhlIHNhbXBsZSBub25j_Q==", "dGhlIHNhbXBsZSBub25jZQ===", " ==", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
        ]
        for key in wrong {
            #expect(try read(altered("Sec-WebSocket-Key: \(key)")).handshake == .malformed(.keyMalformed), "\(key)")
        }
    }
}

@Suite("WebSocket answers")
struct WebSocketAnswerTests {
    private static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    private static let good = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: \(accept)"]

    private func fault(_ fields: [String]) throws -> WebSocketAnswerFault? {
        let lines = ["HTTP/1.1 101 Switching Protocols"] + fields + ["", ""]
        let bytes = Array(lines.joined(separator: "\r\n").utf8)
        var parser = ResponseHeadParser(limits: .standard)
        var head = ResponseHead()
        guard case .complete = try parser.parse(bytes.span, answering: .get, into: &head) else {
            Issue.record("not a whole head")
            return nil
        }
        let accept = Array(Self.accept.utf8)
        return WebSocketAnswerFault(head, bytes.span, accept: accept.span)
    }

    @Test("an answer that matches the key is valid, in any case of its names")
    func valid() throws {
        #expect(try fault(Self.good) == nil)
        #expect(try fault(["UPGRADE: WebSocket", "connection: keep-alive, upgrade", Self.good[2]]) == nil)
    }

    @Test("an answer that does not switch exactly to websocket is refused")
    func others() throws {
        #expect(try fault(Array(Self.good.dropFirst())) == .upgrade)
        #expect(try fault(["Upgrade: h2c"] + Self.good.dropFirst()) == .upgrade)
        #expect(try fault(["Upgrade: websocket, h2c"] + Self.good.dropFirst()) == .upgrade)
        #expect(try fault(["Upgrade: websocket"] + Self.good) == .upgrade)
        #expect(try fault([Self.good[0], Self.good[2]]) == .connection)
        #expect(try fault(["Connection: keep-alive", Self.good[0], Self.good[2]]) == .connection)
    }

    @Test("an answer to another key is refused")
    func accept() throws {
        #expect(try fault(Array(Self.good.dropLast())) == .acceptCount)
        #expect(try fault(Self.good + [Self.good[2]]) == .acceptCount)
        #expect(try fault(Self.good.dropLast() + ["Sec-WebSocket-Accept: \(Self.accept.lowercased())"]) == .acceptWrong)
        #expect(try fault(Self.good.dropLast() + ["Sec-WebSocket-Accept:"]) == .acceptWrong)
    }
}
