import Testing

@testable import GatewayConfiguration

@Suite("Diagnostics")
struct DiagnosticTests {
    @Test("a diagnostic has place, line, caret, expectation and suggestion")
    func rendering() {
        let text = Conf.valid(replacing: "    upstream: records\n", by: "    upstream: records\n    methds: [GET]\n")
        #expect(
            render(text) == """
                conf/attestgate.yaml:17:5: error: unknown key `methds`
                   17 |     methds: [GET]
                      |     ^~~~~~
                  expected one of: name, host, path, methods, require, enforce, apps, policy, device_token, profile, components, \
                upstream, content_limit, content_idle, body, websocket, unusual_headers, targets, path_characters, rate, \
                identity, stricter_below
                  did you mean `methods`?
                """)
    }

    @Test("a passphrase in the wrong setting is not repeated, because diagnostics are logged")
    func passphrase() {
        let lines = [
            "    passphrase: tulip-77", "    \"key_Passphrase\": \"tulip-77\"", "    password:tulip-77",
            "    authority: { key: a, passphrase: tulip-77, certificate: b }", "    - passphrase : tulip-77",
            "    passphrase_variable: tulip-77",
        ]
        for line in lines {
            let text = Conf.valid(replacing: "    upstream: records\n", by: "    upstream: records\n\(line)\n")
            let rendered = render(text)
            #expect(rendered.contains("error: ") && !rendered.contains("tulip"), "\(rendered)")
        }
        #expect(Conf.diagnostics("passphrase_file: \"of tulips\"").contains { $0.description.contains("of tulips") })
    }

    @Test("an unknown upstream is reported with a suggestion")
    func unknownUpstream() {
        let text = Conf.valid(replacing: "upstream: records", by: "upstream: record")
        #expect(
            render(text) == """
                conf/attestgate.yaml:16:15: error: there is no upstream `record`
                   16 |     upstream: record
                      |               ^~~~~~
                  expected one of: records
                  did you mean `records`?
                """)
    }

    @Test("a requirement without its sections says what to write")
    func levelWithoutRegistry() {
        let text = Conf.valid(replacing: "require: certificate", by: "require: device")
        #expect(
            render(text) == """
                conf/attestgate.yaml:15:14: error: `require: device` needs the sections `registry` and `apps`
                   15 |     require: device
                      |              ^~~~~~
                  expected a section `registry` and a section `apps`, or `require: certificate`
                """)
    }

    @Test("only the section that a requirement lacks is named")
    func levelWithoutApps() {
        let apps = "apps: []\nregistry: { path: a, secret: b }\nroutes:\n"
        let text = Conf.valid(replacing: "routes:\n", by: apps)
            .replacing("require: certificate", with: "require: device")
        #expect(
            render(text) == """
                conf/attestgate.yaml:17:14: error: `require: device` needs the sections `registry` and `apps`
                   17 |     require: device
                      |              ^~~~~~
                  expected at least one app in the section `apps`, or `require: certificate`
                """)
    }

    @Test("a setting that the requirement ignores says what to write")
    func meaninglessKey() {
        let text = Conf.valid(
            replacing: "    upstream: records\n", by: "    upstream: records\n    apps: [ABCDE12345.org.example.app]\n")
        #expect(
            render(text) == """
                conf/attestgate.yaml:17:11: error: `apps` has no effect with `require: certificate`
                   17 |     apps: [ABCDE12345.org.example.app]
                      |           ^
                  expected `require: device` or `require: request-proof`, or no `apps`
                """)
    }

    @Test("a server on another machine without TLS says what to write")
    func plaintext() {
        let text = Conf.valid(replacing: "[127.0.0.1:9000]", by: "['10.0.0.7:9000']")
        #expect(
            render(text) == """
                conf/attestgate.yaml:10:15: error: 10.0.0.7:9000 is not on this machine, and patient data would be sent \
                unencrypted
                   10 |     servers: ['10.0.0.7:9000']
                      |               ^~~~~~~~~~~~~~~
                  expected `tls` in this upstream, or `plaintext: accepted` if the network to its servers is trusted
                """)
    }

    @Test("the caret is right behind umlauts, combining marks, wide characters and tabs")
    func caret() throws {
        let diagnostics = Conf.diagnostics("{ 'grün': 1, 'u\u{308}': 2, '患者': 3,\tworkers: 0 }")
        let excerpts = diagnostics.filter { !$0.message.contains("missing") }.compactMap(\.excerpt)
        #expect(excerpts.allSatisfy { $0.text == "{ 'grün': 1, 'u\u{308}': 2, '患者': 3,\tworkers: 0 }" })
        #expect(
            excerpts.map(\.underline) == [
                "  ^~~~~~", "             ^~~", "                     ^~~~~~",
                "                               \t         ^",
            ])
        #expect(diagnostics.compactMap(\.column).suffix(4) == [3, 14, 23, 41])
    }

    @Test("a very long line is shortened around the place")
    func longLine() throws {
        let text =
            "{ a: '" + String(repeating: "x", count: 1000) + "', workers: 0, b: '"
            + String(repeating: "y", count: 1000) + "' }"
        let diagnostic = try #require(Conf.diagnostics(text).first { $0.message.hasPrefix("0 is") })
        let excerpt = try #require(diagnostic.excerpt)
        #expect(excerpt.text.count == 166)
        #expect(excerpt.text.hasPrefix("...xxx"))
        #expect(excerpt.text.hasSuffix("yyy..."))
        #expect(excerpt.underline == String(repeating: " ", count: 63) + "^")
        #expect(Array(excerpt.text)[63] == "0")
    }

    @Test("no control character of a conf file reaches the terminal")
    func controls() {
        let rendered = render("{ \"\\e[2J\u{202E}\": 1, '\u{9B}': 2 }")
        #expect(!rendered.unicodeScalars.contains { ["\u{1B}", "\u{202E}", "\u{9B}"].contains($0) })
    }

    @Test("a diagnostic of a whole file has no place")
    func wholeFile() {
        let diagnostic = Diagnostic(
            severity: .warning, file: "a.yaml", place: nil, message: "odd", expected: "even", suggestion: nil,
            excerpt: nil)
        #expect(diagnostic.description == "a.yaml: warning: odd\n  expected even")
    }

    @Test("errors come before warnings")
    func errorsFirst() {
        let text = Conf.valid(replacing: "upstreams:\n", by: "upstreams:\n  labs:\n    servers: [localhost:9001]\n")
            .replacing("require: certificate", with: "require: certificat")
        let rendered = render(text)
        #expect(rendered.contains("error: `certificat` is not a known value"))
        #expect(rendered.contains("\n\nconf/attestgate.yaml:9:3: warning: no route uses the upstream `labs`"))
        #expect(!rendered.hasPrefix("conf/attestgate.yaml:9:3"))
    }

    private func render(_ text: String) -> String {
        ConfigurationError(Conf.diagnostics(text), omitted: 0)?.description ?? "accepted"
    }
}

@Suite("Places of resources in the conf file")
struct MentionsTests {
    private static func place(_ subject: Subject, in text: String) throws -> String {
        let diagnostic = try Conf.read(text).configuration.mentions.diagnostic(.error, of: subject, "it is at fault")
        return diagnostic.description.split(separator: "\n").prefix(2).joined(separator: "|")
    }

    @Test(
        "files, addresses and servers are found by what they are",
        arguments: [
            (Subject.file("conf/server.key"), "5:12", "    5 |       key: server.key"),
            (.file("conf/ca.pem"), "7:21", "    7 |       authorities: [ca.pem]"),
            (.address("127.0.0.1:8443"), "2:14", "    2 |   - address: 127.0.0.1:8443"),
            (.server("127.0.0.1:9000"), "10:15", "   10 |     servers: [127.0.0.1:9000]"),
            (.file("conf/registry.sqlite"), "26:9", "   26 |   path: registry.sqlite"),
            (.address("127.0.0.1:8444"), "35:12", "   35 |   address: 127.0.0.1:8444"),
            (.file("conf/login-next.pem"), "51:23", "   51 |     keys: [login.pem, login-next.pem]"),
        ])
    func found(subject: Subject, place: String, excerpt: String) throws {
        #expect(
            try Self.place(subject, in: Conf.enrolling)
                == "conf/attestgate.yaml:\(place): error: it is at fault|\(excerpt)")
    }

    @Test("of several mentions, the one in the section that uses the resource is shown")
    func severalMentions() throws {
        let host =
            "    hosts:\n      - names: [other.example]\n"
            + "        tls: { certificate: other.pem, key: server.key }\n        clients: { authorities: [ca.pem] }\n"
        let text = Conf.valid(replacing: "upstreams:\n", by: host + "upstreams:\n")
        let configuration = try Conf.read(text).configuration
        let (listener, inner) = (configuration.listeners[0], configuration.listeners[0].hosts[0])
        func line(_ subject: Subject) -> Int? { configuration.mentions.diagnostic(.error, of: subject, "").line }
        let key = Subject.privateKey("conf/server.key")
        #expect(line(key) == 5)
        #expect(line(key.within(try #require(listener.tls).place)) == 5)
        #expect(line(key.within(inner.tls.place)) == 10)
        #expect(line(.file("conf/ca.pem").within(try #require(listener.clients).place)) == 7)
        #expect(line(.file("conf/ca.pem").within(inner.clients.place)) == 11)
        // What the section does not name is found where it is named.
        #expect(line(.file("conf/server.pem").within(inner.tls.place)) == 4)
    }

    @Test("a resource that is not named concerns the whole file")
    func unnamed() throws {
        #expect(try Self.place(.file("other"), in: Conf.valid) == "conf/attestgate.yaml: error: it is at fault")
    }
}
