import Testing

@testable import GatewayConfiguration

@Suite("Relations between routes")
struct RouteRelationsTests {
    @Test(
        "a route that requires less than one below it is found",
        arguments: [
            (Weaker("/", .certificate), Weaker("/admin", .requestProof), true),
            (Weaker("/a", .device), Weaker("/a/b/c", .requestProof), true),
            (Weaker("/a/b", .requestProof), Weaker("/a", .certificate), true),
            (Weaker("/a", .requestProof), Weaker("/a/b", .certificate), false),
            (Weaker("/a", .certificate), Weaker("/a/b", .certificate), false),
            (Weaker("/a", .certificate), Weaker("/ab", .requestProof), false),
            (Weaker("/a", .certificate), Weaker("/a", .requestProof), false),
            (Weaker("/a", .certificate), Weaker("/a/b", .requestProof, host: "other"), false),
            (Weaker("/a", .certificate), Weaker("/a/b", .requestProof, upstream: "other"), false),
        ])
    func weaker(first: Weaker, second: Weaker, isFound: Bool) {
        #expect(RouteRelations.weakerThanLonger([first.route, second.route]).count == (isFound ? 1 : 0))
    }

    @Test("the weaker route is reported, whatever the order")
    func order() {
        let routes = [Weaker("/a/b", .requestProof).route, Weaker("/a", .certificate).route]
        let pairs = RouteRelations.weakerThanLonger(routes)
        #expect(pairs.map(\.weaker) == [1])
        #expect(pairs.map(\.stronger) == [0])
    }

    @Test("a weaker route in a conf file is a warning at its path")
    func warningInFile() throws {
        let text = Conf.attested(
            replacing: "apps:\n  - id: ABCDE12345.org.example.app",
            by: "  - { name: all, host: localhost, path: /, require: device, upstream: records }\n"
                + "apps:\n  - id: ABCDE12345.org.example.app")
        let warnings = try Conf.read(text).warnings
        #expect(warnings.map(\.line) == [19])
        #expect(warnings.first?.message.contains("requires less (device) than `records` below it") == true)
    }

    private static func acknowledging(_ names: String) -> String {
        Conf.attested(
            replacing: "apps:\n  - id: ABCDE12345.org.example.app",
            by:
                "  - { name: all, host: localhost, path: /, require: device, upstream: records, stricter_below: \(names) }\n"
                + "apps:\n  - id: ABCDE12345.org.example.app")
    }

    @Test("a weaker route that names the stricter one is no warning")
    func acknowledged() throws {
        #expect(try Conf.read(Self.acknowledging("[records]")).warnings.isEmpty)
    }

    @Test("`stricter_below` is refused where it names no stricter route below")
    func acknowledgedInVain() {
        let misspelt = Conf.diagnostics(Self.acknowledging("[recrods]")).filter { $0.severity == .error }
        #expect(misspelt.map(\.suggestion) == ["records"])
        #expect(misspelt.map(\.line) == [19])
        let text = Conf.valid(
            replacing: "    upstream: records\n", by: "    upstream: records\n    stricter_below: [a]\n")
        let vain = Conf.diagnostics(text)
        #expect(vain.map(\.expected) == ["no `stricter_below`: no route below requires more at the upstream `records`"])
    }

    @Test("a weaker route is a warning, not an error")
    func warning() throws {
        let root = Item(content: .mapping([]), place: Place(line: 3, column: 5))
        let reading = Reading(
            source: SourceText(file: Conf.path, text: "a\nb\n    c"), files: Conf.anyFile,
            top: Configuration.section)
        let routes = [Weaker("/", .certificate).route, Weaker("/admin", .device).route]
        RouteRelations.check(routes.map { (value: $0, item: root) }, reading)
        // Both have the same name here, which is refused: only the warning is of interest.
        let error = try #require(throws: ConfigurationError.self) { try reading.finish() }
        let warnings = error.diagnostics.filter { $0.severity == .warning }
        #expect(warnings.map(\.place) == [root.place])
        #expect(warnings.first?.message.contains("requires less (certificate) than `r` below it (device)") == true)
    }

    @Test(
        "a segment `*` is a warning because it is literal; part of a name it is none",
        arguments: [
            ("/records/*", true), ("/records/*/x", true), ("/*", true), ("/records", false), ("/records/a*", false),
            ("/records/**", false),
        ])
    func stars(path: String, isDoubtful: Bool) throws {
        let warnings = try Conf.read(Conf.valid(replacing: "path: /records", by: "path: \(path)")).warnings
        #expect(warnings.map { $0.message.hasPrefix("`*` is a literal character") } == (isDoubtful ? [true] : []))
    }

    @Test("requirements rank from certificate over device to request-proof")
    func rank() {
        #expect(RouteConfiguration.Requirement.certificate < .device)
        #expect(RouteConfiguration.Requirement.device < .requestProof)
    }

    @Test("routes may share host and path if their methods differ")
    func sharedPath() throws {
        let text =
            Conf.valid(replacing: "    require", by: "    methods: [GET]\n    require")
            + "  - { name: b, host: localhost, path: /records, methods: [PUT], require: certificate, "
            + "upstream: records }\n"
        #expect(try Conf.read(text).configuration.routes.count == 2)
    }

    @Test("an upstream that no route uses is a warning")
    func unusedUpstream() throws {
        let text = Conf.valid(
            replacing: "upstreams:\n", by: "upstreams:\n  labs:\n    servers: [localhost:9001]\n")
        let warnings = try Conf.read(text).warnings
        try #require(warnings.count == 1)
        #expect(warnings[0].severity == .warning)
        #expect(warnings[0].message == "no route uses the upstream `labs`")
        #expect(warnings[0].place == Place(line: 9, column: 3, length: 4))
    }

    @Test("a misspelt reference does not make an upstream look unused")
    func misspeltReference() {
        let text = Conf.valid(replacing: "upstream: records", by: "upstream: rcords")
        #expect(Conf.diagnostics(text).map(\.severity) == [.error])
    }
}

/// The properties of a route that matter for its relations.
struct Weaker: Sendable {
    let route: RouteConfiguration

    init(
        _ path: String, _ require: RouteConfiguration.Requirement, host: String = "localhost", upstream: String = "u"
    ) {
        let text = "{name: r, host: \(host), path: \(path), require: \(require.rawValue), upstream: \(upstream)}"
        let source = SourceText(file: Conf.path, text: text)
        let reading = Reading(source: source, files: Conf.anyFile, top: Configuration.section)
        guard let item = Document.root(reading, of: source), let route = RouteConfiguration.read(item, reading) else {
            preconditionFailure("the route is valid")
        }
        self.route = route
    }
}
