import Bytes
import HTTP
import Testing
import Upstream

@testable import Gateway
@testable import Telemetry

@Suite("The request written to the upstream")
struct UpstreamRequestTests {
    private static let trace = TraceContext(
        id: TraceID(high: 1, low: 2), request: 3, flags: 1, parent: 0, isRecorded: false)
    private static let traceLine = "traceparent: 00-00000000000000010000000000000002-0000000000000003-01\r\n"

    private static let client = ClientFields(forwarded: Array("for=192.0.2.7;proto=https;host=\"".utf8))

    private func rewrite(
        _ text: String, trace: TraceContext = trace, hasOnlyProof: Bool = false, client: ClientFields = Self.client,
        verdict: RouteVerdict? = nil
    ) throws -> (isWritten: Bool, text: String) {
        let bytes = Array(text.utf8)
        var parser = RequestHeadParser(limits: .standard)
        var head = RequestHead()
        _ = try parser.parse(bytes.span, into: &head)
        var output = ByteBuffer(pool: BufferPool())
        let request = UpstreamRequest(policy: FieldPolicy())
        let query = head.query.map { Array(bytes[$0.start..<$0.end]) }
        let path = Array(bytes[head.path.start..<head.path.end])
        let authority = Array(bytes[head.authority.start..<head.authority.end])
        output.appendRequestHead(
            try #require(head.method), path: path.span, query: query?.span, authority: authority.span,
            framing: head.framing
        ) {
            request.appendFields(
                of: head, bytes.span, client: client, trace: trace, device: nil, verdict: verdict,
                hasOnlyProof: hasOnlyProof, to: &$0)
        }
        return (!output.overflowed, String(decoding: output.copy(), as: UTF8.self))
    }

    @Test("a service learns the verdict of a route that observes, and no client can claim one")
    func verdicts() throws {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nAttest-Verdict: pass\r\nattest-verdict: pass\r\n\r\n"
        for (verdict, line) in [
            (nil, nil), (.pass, "Attest-Verdict: pass\r\n"),
            (.wouldDeny(.proofRequired), "Attest-Verdict: would-deny;code=proof_required\r\n"),
        ] as [(RouteVerdict?, String?)] {
            let written = try rewrite(text, verdict: verdict).text
            #expect(written.lowercased().ranges(of: "attest-verdict").count == (line == nil ? 0 : 1))
            if let line { #expect(written.contains(line)) }
        }
    }

    @Test("the request is in canonical form: Host first, hop-by-hop fields removed, ours added")
    func canonical() throws {
        let written = try rewrite(
            "GET https://a:1/b?c HTTP/1.1\r\nAccept: \t x \r\nhost:a:1\r\nConnection: keep-alive, TE\r\nTE: trailers\r\n"
                + "Keep-Alive: 5\r\nUpgrade: h2c\r\nX-Stays: 1\r\nForwarded: for=evil\r\nAttest-App: x\r\n\r\n"
        )
        #expect(written.isWritten)
        #expect(
            written.text == """
                GET /b?c HTTP/1.1\r
                Host: a:1\r
                Accept: x\r
                X-Stays: 1\r
                Forwarded: for=192.0.2.7;proto=https;host="a:1"\r
                \(Self.traceLine)\r\n
                """)
    }

    @Test(
        "Forwarded has the canonical authority, Host the one that was sent",
        arguments: [
            ("A.Example", "a.example"), ("a.example:443", "a.example"), ("A.example:8443", "a.example:8443"),
            ("a.example:4430", "a.example:4430"), ("[2001:DB8::1]:443", "[2001:db8::1]"),
        ])
    func authority(_ sent: String, _ canonical: String) throws {
        let text = try rewrite("GET / HTTP/1.1\r\nHost: \(sent)\r\n\r\n").text
        #expect(text.contains("\r\nHost: \(sent)\r\n") && text.contains(";host=\"\(canonical)\"\r\n"))
    }

    @Test("traceparent is always ours, and tracestate is passed on only with a continued trace")
    func traces() throws {
        let text =
            "GET / HTTP/1.1\r\nHost: a\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
            + "tracestate: a=1\r\nTRACEPARENT: x\r\nTracestate: b=2\r\n\r\n"
        let begun = try rewrite(text).text
        #expect(begun.contains("\r\n" + Self.traceLine))
        #expect(!begun.contains("0af7651916cd43dd") && !begun.contains("TRACEPARENT") && !begun.contains("Traceparent"))
        #expect(!begun.lowercased().contains("tracestate"))
        let continued = TraceContext(id: TraceID(high: 1, low: 2), request: 3, flags: 1, parent: 4, isRecorded: false)
        let text2 = try rewrite(text, trace: continued).text
        #expect(text2.contains("\r\ntracestate: a=1\r\nTracestate: b=2\r\n"))
        #expect(text2.contains("\r\n" + Self.traceLine) && !text2.contains("0af7651916cd43dd"))
    }

    @Test("content is announced in one way")
    func framing() throws {
        let length = try rewrite("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n").text
        #expect(length.contains("\r\nContent-Length: 7\r\n"))
        #expect(!length.contains("Expect"))
        let chunked = try rewrite("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n").text
        #expect(chunked.contains("\r\nTransfer-Encoding: chunked\r\n"))
        #expect(try rewrite("POST / HTTP/1.1\r\nHost: a\r\n\r\n").text.contains("\r\nContent-Length: 0\r\n"))
        #expect(try !rewrite("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text.contains("Content-Length"))
    }

    @Test("an upstream receives the fields about the client that it asks for, and a client's own never")
    func client() throws {
        let sent = ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Client-Cert"]
        let start = "GET / HTTP/1.1\r\nHost: A.example:443\r\n"
        let text = start + sent.map { "\($0): evil\r\n" }.joined() + "\r\n"
        func written(_ names: ForwardedNames, certificate: String = "", chain: String = "") throws -> [String] {
            var client = ClientFields(forwarded: names.contains(.forwarded) ? Self.client.forwarded : nil)
            var others = ClientFields.Others(names, address: Array("192.0.2.7".utf8))
            others.certificate = Array(certificate.utf8)
            others.chain = Array(chain.utf8)
            client.others = others
            let lines = try rewrite(text, client: client).text.split(separator: "\r\n").map(String.init)
            #expect(lines.allSatisfy { !$0.contains("evil") })
            return lines.dropFirst(2).filter { !$0.hasPrefix("traceparent") }
        }
        #expect(try written([]) == [])
        #expect(try written(.forwarded) == ["Forwarded: for=192.0.2.7;proto=https;host=\"a.example\""])
        #expect(
            try written([.xForwardedFor, .xForwardedProto, .xForwardedHost])
                == ["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.example"])
        #expect(try written([], certificate: ":AA==:") == ["Client-Cert: :AA==:"])
        #expect(
            try written([], certificate: ":AA==:", chain: ":BB==:, :CC==:")
                == ["Client-Cert: :AA==:", "Client-Cert-Chain: :BB==:, :CC==:"])
    }

    @Test("our own proof is removed, and signatures of others are passed on")
    func proofs() throws {
        let written = try rewrite(
            "GET / HTTP/1.1\r\nHost: a\r\nSignature-Input: attest=(\"@method\");created=1\r\n"
                + "signature: attest=:AA==:, sig1=:BB==:\r\nSIGNATURE: attest=:AA==:\r\nSignature: no=dictionary=\r\n\r\n"
        )
        #expect(written.isWritten)
        #expect(!written.text.contains("attest") && !written.text.contains("dictionary"))
        #expect(written.text.contains("\r\nsignature: sig1=:BB==:\r\n"))
    }

    @Test("signature fields that hold only our proof are removed without parsing")
    func onlyProof() throws {
        let written = try rewrite(
            "GET / HTTP/1.1\r\nHost: a\r\nSignature-Input: attest=(\"@method\");created=1\r\nAccept: b\r\n"
                + "signature: attest=:AA==:\r\n\r\n", hasOnlyProof: true)
        #expect(written.isWritten)
        #expect(!written.text.lowercased().contains("signature") && written.text.contains("\r\nAccept: b\r\n"))
    }

    @Test("a field that overrides method or target is detected in any case")
    func refused() throws {
        for (name, isRefused) in [("X-HTTP-Method-Override", true), ("x-original-URL", true), ("X-Original", false)] {
            let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\n\(name): DELETE\r\n\r\n".utf8)
            var parser = RequestHeadParser(limits: .standard)
            var head = RequestHead()
            _ = try parser.parse(bytes.span, into: &head)
            let found = UpstreamRequest(policy: FieldPolicy()).refuses(head, bytes.span)
            #expect(found == isRefused)
        }
    }
}
