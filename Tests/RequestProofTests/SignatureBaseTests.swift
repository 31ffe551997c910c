@testable import RequestProof
import Testing

@Suite("The signature base (RFC 9421)")
struct SignatureBaseTests {
    /// The request of RFC 9421 appendix B.2.
    private static let digest =
        "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
    private static let fields = [
        ("Host", "example.com"), ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"), ("Content-Type", "application/json"),
        ("Content-Digest", digest), ("Content-Length", "18"),
    ]

    /// Builds a base with the RFC's own parameters, which no proof of this protocol has.
    private func base(
        _ parameters: String, method: String = "POST", authority: String = "example.com", path: String = "/foo",
        query: String = "param=Value&Pet=dog", fields: [(String, String)] = fields
    ) throws -> String {
        let bytes = Array("x=\(parameters)".utf8)
        var parser = try FieldParser(bytes.span)
        _ = try parser.nextMember()
        #expect(try parser.memberValue() == .innerList)
        var components: [SignatureInput.Covered] = []
        while case .string(let range) = try parser.nextInnerItem() {
            #expect(try parser.nextParameter() == nil)
            switch KnownComponent.find(bytes.span.extracting(range)) {
            case .method: components.append(.method)
            case .authority: components.append(.authority)
            case .path: components.append(.path)
            case .query: components.append(.query)
            default: components.append(.field(name: range))
            }
        }
        let parts = (Array(method.utf8), Array(authority.utf8), Array(path.utf8), Array(query.utf8))
        var base = SignatureBase()
        try base.build(
            components, named: bytes.span, parameters: Array(bytes[2...]),
            of: RequestParts(method: parts.0.span, authority: parts.1.span, path: parts.2.span, query: parts.3.span),
            fields: Parsing.lookup(fields))
        return Parsing.text(base.bytes)
    }

    @Test("appendix B.2.1: a signature that covers nothing")
    func minimal() throws {
        let parameters = #"();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#
        #expect(try base(parameters) == "\"@signature-params\": " + parameters)
    }

    @Test("appendix B.2.2: a parameterized component, which no proof has")
    func selective() {
        let input = #"sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473"#
        #expect(Parsing.fault(input.replacing("sig-b22", with: "attest")) == .componentUnknown)
    }

    @Test("appendix B.2.3: full coverage")
    func full() throws {
        let parameters =
            #"("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length")"#
            + #";created=1618884473;keyid="test-key-rsa-pss""#
        #expect(
            try base(parameters) == """
                "date": Tue, 20 Apr 2021 02:07:55 GMT
                "@method": POST
                "@path": /foo
                "@query": ?param=Value&Pet=dog
                "@authority": example.com
                "content-type": application/json
                "content-digest": \(Self.digest)
                "content-length": 18
                "@signature-params": \(parameters)
                """)
    }

    @Test("appendix B.2.5: a request signed with a shared secret")
    func sharedSecret() throws {
        let parameters = #"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#
        #expect(
            try base(parameters) == """
                "date": Tue, 20 Apr 2021 02:07:55 GMT
                "@authority": example.com
                "content-type": application/json
                "@signature-params": \(parameters)
                """)
    }

    @Test("appendix B.2.6: a request signed with ed25519")
    func ed25519() throws {
        let parameters =
            #"("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473"#
            + #";keyid="test-key-ed25519""#
        #expect(
            try base(parameters) == """
                "date": Tue, 20 Apr 2021 02:07:55 GMT
                "@method": POST
                "@path": /foo
                "@authority": example.com
                "content-type": application/json
                "content-length": 18
                "@signature-params": \(parameters)
                """)
    }

    @Test("appendix B.4: permitted changes by an intermediary keep the base, others do not")
    func transformations() throws {
        let parameters = #"("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519""#
        let expected = """
            "@method": GET
            "@path": /demo
            "@authority": example.org
            "accept": application/json, */*
            "@signature-params": \(parameters)
            """
        func demo(_ fields: [(String, String)], method: String = "GET", authority: String = "example.org") throws
            -> String
        {
            try base(
                parameters, method: method, authority: authority, path: "/demo", query: "name1=Value1", fields: fields)
        }
        let accept = [("Accept", "application/json"), ("Accept", "*/*")]
        #expect(try demo(accept) == expected)
        #expect(try demo([("Accept", "application/json, */*")]) == expected)
        #expect(try demo([("X", "y"), ("ACCEPT", " application/json "), ("accept", "\t*/*")]) == expected)
        #expect(try demo(accept, authority: "Example.ORG:443") == expected)
        #expect(try demo(accept.reversed()) != expected)
        #expect(try demo(accept, method: "POST") != expected)
        #expect(try demo(accept, authority: "www.example.org") != expected)
    }

    @Test("section 2.1: fields of one line, several and none")
    func fields() throws {
        let fields = [
            ("Host", "www.example.com"), ("X-OWS-Header", "   Leading and trailing whitespace.   "),
            ("Cache-Control", "max-age=60"), ("Cache-Control", "    must-revalidate"),
            ("Example-Dict", " a=1,    b=2;x=1;y=2,   c=(a   b   c)"), ("X-Empty-Header", ""),
            ("Example-Header", "value, with, lots"), ("Example-Header", "of, commas"),
        ]
        let parameters = #"("host" "x-ows-header" "cache-control" "example-dict" "x-empty-header" "example-header")"#
        #expect(
            try base(parameters, fields: fields) == """
                "host": www.example.com
                "x-ows-header": Leading and trailing whitespace.
                "cache-control": max-age=60, must-revalidate
                "example-dict": a=1,    b=2;x=1;y=2,   c=(a   b   c)
                "x-empty-header": \("")
                "example-header": value, with, lots, of, commas
                "@signature-params": \(parameters)
                """)
    }

    @Test(
        "section 2.2.3: the host in lower case, without the default port",
        arguments: [
            ("www.example.com", "www.example.com"), ("WWW.Example.COM", "www.example.com"),
            ("www.example.com:443", "www.example.com"), ("www.example.com:8443", "www.example.com:8443"),
            ("www.example.com:4430", "www.example.com:4430"), ("www.example.com:80", "www.example.com:80"),
            ("www.example.com:", "www.example.com"), ("[::1]:443", "[::1]"), ("[2001:DB8::443]", "[2001:db8::443]"),
            ("[::443]:8443", "[::443]:8443"), ("a:1443", "a:1443"), ("443", "443"), ("a443", "a443"),
        ])
    func authority(_ sent: String, _ expected: String) throws {
        #expect(
            try base(#"("@authority")"#, authority: sent)
                == "\"@authority\": \(expected)\n\"@signature-params\": (\"@authority\")")
    }

    @Test(
        "sections 2.2.6 and 2.2.7: path and query as sent",
        arguments: [
            ("/path", "param=value&foo=bar&baz=batman", "/path", "?param=value&foo=bar&baz=batman"),
            ("/path", "queryString", "/path", "?queryString"), ("/path", "", "/path", "?"), ("", "", "/", "?"),
            ("/%C3%A9/", "a=%20%3F?", "/%C3%A9/", "?a=%20%3F?"),
        ])
    func target(_ path: String, _ query: String, _ expectedPath: String, _ expectedQuery: String) throws {
        #expect(
            try base(#"("@path" "@query")"#, path: path, query: query) == """
                "@path": \(expectedPath)
                "@query": \(expectedQuery)
                "@signature-params": ("@path" "@query")
                """)
    }

    @Test("the method is case-sensitive")
    func method() throws {
        #expect(try base(#"("@method")"#, method: "get").hasPrefix("\"@method\": get\n"))
    }

    @Test("a covered field missing from the request is named by its place")
    func absent() {
        #expect(throws: ProofFault.fieldAbsent(place: 1)) { try base(#"("@method" "x-absent" "date")"#) }
    }

    @Test(
        "a field value cannot add a line to the base",
        arguments: ["a\n\"@method\": GET", "a\r\nb", "a\0b", "a\u{7f}", "é", "a\u{1f}b"])
    func injection(_ value: String) {
        let fault = ProofFault.malformed(.request, .componentValue)
        #expect(throws: fault) { try base(#"("x")"#, fields: [("X", value)]) }
        #expect(throws: fault) { try base(#"("@method")"#, method: value) }
        #expect(throws: fault) { try base(#"("@authority")"#, authority: value) }
        #expect(throws: fault) { try base(#"("@path")"#, path: value) }
        #expect(throws: fault) { try base(#"("@query")"#, query: value) }
    }

    @Test("method and authority are never empty, and the target contains no space")
    func emptyParts() {
        let fault = ProofFault.malformed(.request, .componentValue)
        #expect(throws: fault) { try base(#"("@method")"#, method: "") }
        #expect(throws: fault) { try base(#"("@authority")"#, authority: "") }
        #expect(throws: fault) { try base(#"("@path")"#, path: "/a b") }
        #expect(throws: fault) { try base(#"("@query")"#, query: "a b") }
    }

    @Test("a rebuilt base contains nothing of earlier ones, failed ones included")
    func reuse() throws {
        let input = try Parsing.input(Sample.input(#""@method" "x""#))
        let parts = Array("GET".utf8)
        var base = SignatureBase()
        func build(_ fields: [(String, String)]) throws {
            try base.build(
                input,
                of: RequestParts(method: parts.span, authority: parts.span, path: parts.span, query: parts.span),
                fields: Parsing.lookup(fields))
        }
        try build([("x", "a long value")])
        try build([("x", "1")])
        #expect(Parsing.text(base.bytes) == (try Parsing.base(input, fields: [("x", "1")])))
        #expect(throws: ProofFault.self) { try build([]) }
        #expect(base.bytes.isEmpty)
        try build([("x", "1")])
        #expect(Parsing.text(base.bytes) == (try Parsing.base(input, fields: [("x", "1")])))
    }

    @Test("lines are joined to one value, empty ones too, and no line means no field")
    func combinedField() {
        #expect(Parsing.combined(["a", " b\t", "", "\t \t", "c, d"]) == Array("a, b, , , c, d".utf8))
        var field = CombinedField()
        let before = field.isAbsent
        field.add([UInt8]().span)
        let (isAbsent, isEmpty) = (field.isAbsent, field.value.isEmpty)
        field.removeAll()
        let after = field.isAbsent
        #expect(before && !isAbsent && isEmpty && after)
    }
}
