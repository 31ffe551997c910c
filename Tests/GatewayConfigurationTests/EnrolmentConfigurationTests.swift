import Testing

@testable import GatewayConfiguration

@Suite("Enrolment in the conf file")
struct EnrolmentConfigurationTests {
    @Test("every given setting is kept")
    func everything() throws {
        let (configuration, warnings) = try Conf.read(Conf.enrolling)
        #expect(warnings.isEmpty)
        #expect(configuration.role == .both)
        let enrolment = try #require(configuration.enrolment)
        #expect(enrolment.address.description == "127.0.0.1:8444")
        #expect(enrolment.tls.certificatePath == "conf/server.pem" && enrolment.tls.keyPath == "conf/server.key")
        #expect(enrolment.tls.policy == .modern && enrolment.tls.responsePath == nil)
        #expect(enrolment.url.text == "https://localhost:8444")
        #expect(enrolment.authority.certificatePath == "conf/ca.pem" && enrolment.authority.keyPath == "conf/ca.key")
        #expect(enrolment.authority.passphrase == .file("conf/ca.passphrase"))
        #expect(enrolment.certificateLife == .seconds(2_592_000))
        #expect(enrolment.rotationOverlap == .zero)
        #expect(enrolment.nonceLife == .seconds(60))
        guard case .token(let token) = enrolment.admission else {
            Issue.record("\(enrolment.admission)")
            return
        }
        #expect(token.issuer.text == "https://login.example.org/")
        #expect(token.audience.text == "https://enrol.example.org")
        #expect(token.keys == .files(["conf/login.pem", "conf/login-next.pem"]))
        #expect(enrolment.contentLimit == 48 << 10)
        #expect(enrolment.requestsPerMinute == 6)
        #expect(enrolment.connections == 10 && enrolment.connectionsPerAddress == 2)
    }

    private static let short =
        Conf.attested + """
            enrolment:
              address: "[::1]:8444"
              tls: { certificate: server.pem, key: server.key }
              url: https://enrol.example.org/phones
              authority: { certificate: ca.pem, key: ca.key }
              admission: open

            """

    @Test("omitted settings have their defaults")
    func defaults() throws {
        let enrolment = try #require(try Conf.read(Self.short).configuration.enrolment)
        #expect(enrolment.authority.passphrase == nil)
        #expect(enrolment.certificateLife == .seconds(2_592_000))
        #expect(enrolment.rotationOverlap == .seconds(600))
        #expect(enrolment.nonceLife == .seconds(300))
        #expect(enrolment.admission == .open)
        #expect(enrolment.contentLimit == 64 << 10)
        #expect(enrolment.requestsPerMinute == 60)
        #expect(enrolment.connections == 1000 && enrolment.connectionsPerAddress == 32)
    }

    /// What gematik's endpoints need.
    static let cards = """
          profile: dsr
          devices:
            address: 127.0.0.1:8446
            tls: { certificate: server.pem, key: server.key }
            clients: { authorities: [ca.pem] }
          device_tokens: { issuer: gms, key: token.key }
          admission: card
          card: { authorities: [cards.pem, more-cards.pem] }

        """

    @Test("gematik's endpoints admit devices by a health card")
    func cards() throws {
        let text = Self.short.replacing("  admission: open\n", with: Self.cards)
        let enrolment = try #require(try Conf.read(text).configuration.enrolment)
        guard case .card(let card) = enrolment.admission else {
            Issue.record("\(enrolment.admission)")
            return
        }
        #expect(card.authoritiesPaths == ["conf/cards.pem", "conf/more-cards.pem"])
        #expect(enrolment.profile == .dsr && enrolment.unknownRegistration == 404)
        let other = text.replacing("profile: dsr", with: "profile: dsr\n  unknown_registration: 400")
        #expect(try Conf.read(other).configuration.enrolment?.unknownRegistration == 400)
    }

    @Test(
        "gematik's endpoints need a card, the listener for devices and device tokens, and nothing else has cards",
        arguments: [
            ("profile: dsr", "profile: attestgate", "only the endpoints of `profile: dsr` accept cards"),
            (
                "admission: card\n  card: { authorities: [cards.pem, more-cards.pem] }", "admission: open",
                "`profile: dsr` admits devices by a health card"
            ),
            (
                "  card: { authorities: [cards.pem, more-cards.pem] }\n", "",
                "`admission: card` needs the authorities of the cards"
            ),
            ("admission: card", "admission: open", "`card` has no effect with `admission: open`"),
            (
                "  device_tokens: { issuer: gms, key: token.key }\n", "",
                "`profile: dsr` needs the sections `devices` and `device_tokens`"
            ),
            ("profile: dsr", "profile: dsr\n  unknown_registration: 403", "`403` is neither 404 nor 400"),
            ("profile: dsr", "profile: dsr2", "`dsr2` is not a known value"),
        ])
    func brokenCards(_ before: String, _ after: String, _ message: String) throws {
        let cards = Self.cards.replacing(before, with: after)
        #expect(cards != Self.cards)
        let diagnostics = Conf.diagnostics(Self.short.replacing("  admission: open\n", with: cards))
        #expect(diagnostics.map(\.message).contains { $0.contains(message) }, "\(diagnostics)")
    }

    @Test("devices renew over mutual TLS where they have a listener for it, and else as before")
    func renewal() throws {
        let devices =
            "  devices:\n    address: 127.0.0.1:8446\n    tls: { certificate: server.pem, key: server.key }\n"
            + "    clients: { authorities: [ca.pem], accept: [issued, registered] }\n"
        func read(_ text: String) throws -> EnrolmentConfiguration {
            try #require(try Conf.read(Self.short + text).configuration.enrolment)
        }
        #expect(try read("").renewal == .tls && read("").addresses.count == 1)
        let standard = try read(devices)
        #expect(standard.renewal == .mtls && standard.renewalGrace == .seconds(2_592_000))
        #expect(standard.addresses.map(\.description) == ["[::1]:8444", "127.0.0.1:8446"])
        #expect(standard.devices?.clients.acceptsRegistered == true)
        #expect(try read(devices + "  renewal: tls\n").renewal == .tls)
        #expect(try read(devices + "  renewal_grace: 0s\n").renewalGrace == .zero)
    }

    private static func receipts(_ more: String = "") throws -> ReceiptsConfiguration? {
        let text = short + "  receipts:\n    team: A1B2C3D4E5\n    key_id: ABCDE12345\n    key: apple.p8\n" + more
        return try Conf.read(text).configuration.enrolment?.receipts
    }

    private static func android(_ environment: String, _ more: String = "") -> String {
        short.replacing(
            "apps:\n",
            with: "apps:\n  - id: android:org.example.records\n    environment: \(environment)\n"
                + "    signing_certificates: [\(String(repeating: "ab", count: 32))]\n"
                + (environment == "simulator" ? "    attestation_root: root.pem\n" : "")) + more
    }

    @Test("apps in production need a status list, software phones only a written one")
    func statusList() throws {
        let written = "  android:\n    status_list: { interval: 10s, stale_after: 20s }\n"
        let file = "  android: { status_list: { file: status.json } }\n"
        let standard = "conf/challenge.secret.status-list"
        typealias Environments = Set<AppConfiguration.Environment>
        let cases: [(text: String, environments: Environments, copy: String?)] = [
            (Self.short, [], nil), (Self.android("production"), [.production], standard),
            (Self.android("simulator"), [], nil), (Self.android("simulator", written), [.simulator], standard),
            (Self.android("production", file), [.production], nil),
            (
                Self.android("production", "  android: { status_list: { copy: var/list } }\n"), [.production],
                "conf/var/list"
            ),
        ]
        for (text, environments, copy) in cases {
            let configuration = try Conf.read(text).configuration
            let android = try #require(configuration.enrolment?.android)
            #expect(android.statusListEnvironments(of: configuration.apps) == environments)
            #expect(android.statusListCopyPath(for: configuration.apps) == copy)
        }
        let list = try #require(try Conf.read(Self.android("production")).configuration.enrolment?.android.statusList)
        #expect(list.url.text == "https://android.googleapis.com/attestation/status" && list.filePath == nil)
        #expect(list.authoritiesPath == "/etc/ssl/certs/ca-certificates.crt")
        #expect(list.interval == .seconds(3_600) && list.staleAfter == .seconds(172_800))
    }

    @Test("a status list that no app uses is a warning, and its copy replaces no other file")
    func statusListReferences() throws {
        let section = "  android: { status_list: { interval: 10s } }\n"
        let warnings = try Conf.read(Self.short + section).warnings.filter { $0.message.contains("status_list") }
        #expect(warnings.map(\.message) == ["`status_list` has no effect: no Android app is configured"])
        #expect(
            try Conf.read(Self.android("production", section)).warnings.allSatisfy { !$0.message.contains("status") })
        let error = try #require(throws: ConfigurationError.self) {
            try Conf.read(Self.android("production", "  android: { status_list: { copy: challenge.secret } }\n"))
        }
        #expect(
            error.diagnostics.map(\.message) == ["`conf/challenge.secret` is already the file of `registry.secret`"])
    }

    @Test("a ceiling for the risk metric without newer receipts is a warning")
    func idleCeiling() throws {
        func warnings(_ text: String) throws -> [Diagnostic] {
            let line = "    receipt: required\n    maximum_risk: 5\n"
            let marked = text.replacing("    environment: production\n", with: "    environment: production\n" + line)
            #expect(marked != text)
            return try Conf.read(marked).warnings.filter { $0.message.contains("maximum_risk") }
        }
        let receipts = "  receipts: { team: A1B2C3D4E5, key_id: ABCDE12345, key: apple.p8 }\n"
        #expect(try warnings(Self.short + receipts).isEmpty)
        for text in [Self.short, Conf.attested] {
            let found = try warnings(text)
            #expect(found.count == 1 && found.first?.expected == "the section `enrolment.receipts`")
            #expect(found.first?.excerpt?.text.contains("maximum_risk: 5") ?? false)
        }
        #expect(try Conf.read(Self.short).warnings.allSatisfy { !$0.message.contains("risk") })
    }

    @Test("receipt settings that no app uses are a warning")
    func idleReceipts() throws {
        func warnings(_ more: String, app: String) throws -> [Diagnostic] {
            let receipts = "  receipts: { team: A1B2C3D4E5, key_id: ABCDE12345, key: apple.p8\(more) }\n"
            let environment = "environment: \(app)\n"
            let text = (Self.short + receipts).replacing("environment: production\n", with: environment)
            #expect(text.contains(environment))
            return try Conf.read(text).warnings.filter { $0.expected?.contains("base_url") ?? false }
        }
        let software = "simulator\n    attestation_root: roots.pem"
        let unasked = try warnings("", app: software)
        #expect(unasked.count == 1 && unasked.first?.message.contains("Apple does not know software phones") ?? false)
        #expect(try warnings("", app: "production").isEmpty)
        #expect(try warnings(", base_url: 'http://127.0.0.1:8450'", app: software).isEmpty)
        let idle = try warnings(", base_url: 'http://127.0.0.1:8450', authorities: ca.pem", app: "production")
        #expect(idle.count == 1 && idle.first?.message.contains("is called without TLS") ?? false)
        #expect(try warnings(", base_url: 'https://127.0.0.1:8450', authorities: ca.pem", app: "production").isEmpty)
    }

    @Test("newer receipts are requested from Apple with cautious defaults")
    func receiptDefaults() throws {
        #expect(try Conf.read(Self.short).configuration.enrolment?.receipts == nil)
        let receipts = try #require(try Self.receipts())
        #expect(receipts.team == "A1B2C3D4E5" && receipts.keyID == "ABCDE12345")
        #expect(receipts.keyPath == "conf/apple.p8" && receipts.baseURL == nil)
        #expect(receipts.authoritiesPath == "/etc/ssl/certs/ca-certificates.crt")
        #expect(receipts.interval == .seconds(86_400) && receipts.retry == .seconds(300))
        #expect(receipts.timeout == .seconds(20))
        #expect(receipts.concurrency == 4 && receipts.callsPerMinute == 60)
        #expect(ReceiptsConfiguration.production.authority == "data.appattest.apple.com")
        #expect(ReceiptsConfiguration.development.server.port == 443)
    }

    @Test("another receipt service needs TLS, except on this machine")
    func receiptService() throws {
        let plain = try #require(try Self.receipts("    base_url: http://127.0.0.1:81/apple\n")?.baseURL)
        #expect(plain.server.description == "127.0.0.1:81" && plain.authority == "127.0.0.1:81")
        #expect(plain.path == "/apple" && !plain.isEncrypted)
        let usual = try #require(try Self.receipts("    base_url: http://localhost\n")?.baseURL)
        #expect(usual.server.description == "localhost:80" && usual.authority == "localhost" && usual.path == "")
        let encrypted = try #require(try Self.receipts("    base_url: https://[2001:db8::1]:444\n")?.baseURL)
        #expect(encrypted.server.host == "2001:db8::1" && encrypted.server.port == 444 && encrypted.isEncrypted)
    }

    @Test("admission tokens are issued for the service's own URL by default")
    func audience() throws {
        let text = Conf.enrolling(replacing: "    audience: https://enrol.example.org\n", by: "")
        let enrolment = try #require(try Conf.read(text).configuration.enrolment)
        guard case .token(let token) = enrolment.admission else {
            Issue.record("\(enrolment.admission)")
            return
        }
        #expect(token.audience == enrolment.url)
    }

    @Test("a passphrase may come from an environment variable")
    func variable() throws {
        let text = Conf.enrolling(
            replacing: "passphrase_file: ca.passphrase", by: "passphrase_variable: GMS_CA_PASSPHRASE")
        #expect(
            try Conf.read(text).configuration.enrolment?.authority.passphrase == .variable("GMS_CA_PASSPHRASE"))
    }

    @Test("a CA that no listener trusts is a warning, in every spelling of its path")
    func foreignAuthority() throws {
        let other = Conf.enrolling(replacing: "certificate: ca.pem", by: "certificate: other.pem")
        let warnings = try Conf.read(other).warnings
        #expect(warnings.map(\.message).count == 1)
        #expect(warnings.first?.message.contains("no listener trusts `conf/other.pem`") ?? false)
        #expect(warnings.first?.line == 41)
        let same = Conf.enrolling(replacing: "certificate: ca.pem", by: "certificate: ./x/../ca.pem")
        #expect(try Conf.read(same).warnings.isEmpty)
    }

    @Test(
        "a listener for enrolled devices that takes none of their certificates is a warning",
        arguments: [
            ("authorities: [./ca.pem]", false), ("authorities: [other.pem]", true), ("accept: [registered]", true),
            ("authorities: [ca.pem], keys: [rsa2048]", true),
        ])
    func foreignDevices(_ clients: String, _ isWarned: Bool) throws {
        let text = Conf.enrolling(
            replacing: "  content_limit",
            by: "  devices:\n    address: 127.0.0.1:8446\n    tls: { certificate: server.pem, key: server.key }\n"
                + "    clients: { \(clients) }\n  content_limit")
        let warnings = try Conf.read(text).warnings.map(\.message)
        #expect(warnings.map { $0.contains("takes no certificate of `conf/ca.pem`") } == (isWarned ? [true] : []))
    }

    @Test(
        "enrolment without a registry or apps is refused",
        arguments: [
            ("", ["a section `registry` and a section `apps`"]),
            ("registry: { path: a, secret: b }\n", ["a section `apps`"]),
            ("registry: { path: a, secret: b }\napps: []\n", ["at least one app in the section `apps`"]),
            ("apps: [{ id: ABCDE12345.org.example.app, environment: production }]\n", ["a section `registry`"]),
        ])
    func needs(sections: String, expected: [String]) throws {
        let text =
            Conf.valid + sections + """
                enrolment:
                  address: 127.0.0.1:8444
                  tls: { certificate: server.pem, key: server.key }
                  url: https://localhost:8444
                  authority: { certificate: ca.pem, key: ca.key }
                  admission: approval

                """
        let diagnostics = Conf.diagnostics(text)
        #expect(diagnostics.map(\.message) == ["`enrolment` needs the sections `registry` and `apps`"])
        #expect(diagnostics.map(\.expected) == expected)
    }

    @Test("the administration's address is refused for enrolment")
    func administrationAddress() throws {
        let text = Conf.enrolling(
            replacing: "socket: administration.socket",
            by: "socket: a\n  listeners: [{ address: 127.0.0.1:8444, token_file: t }]")
        #expect(Conf.diagnostics(text).map(\.message) == ["127.0.0.1:8444 is a listener of the administration"])
    }

    @Test("the CA of device certificates is refused for operators, even where no listener trusts it")
    func administrationAuthority() throws {
        let text = Conf.enrolling(
            replacing: "socket: administration.socket",
            by: "socket: a\n  listeners: [{ address: 127.0.0.1:9, tls: { certificate: c, key: k, "
                + "clients: { authorities: [ca.pem] } } }]")
        #expect(
            Conf.diagnostics(text).map(\.message)
                == ["every client of the gateway can have a certificate of `conf/ca.pem`"])
    }

    @Test("software phones need their own root only where phones enrol")
    func root() throws {
        let without = Conf.enrolling(replacing: "environment: development", by: "environment: simulator")
        let errors = Conf.diagnostics(without).filter { $0.severity == .error }
        #expect(
            errors.map(\.message) == [
                "devices of the app `ABCDE12345.org.example.other` cannot enrol: no known root attests software phones"
            ])
        #expect(errors.first?.line == 24 && errors.first?.column == 18)
        let with = Conf.enrolling(
            replacing: "environment: development", by: "environment: simulator\n    attestation_root: root.pem")
        #expect(try Conf.read(with).configuration.apps.map(\.rootPath) == [nil, "conf/root.pem"])
        let alone = Conf.attested(replacing: "environment: development", by: "environment: simulator")
        #expect(try Conf.read(alone).configuration.apps.map(\.rootPath) == [nil, nil])
    }

    @Test("an Android app names its signers where phones enrol")
    func signers() throws {
        let app = "id: android:org.example.other\n    environment: production"
        let without = Conf.enrolling(
            replacing: "id: ABCDE12345.org.example.other\n    environment: development", by: app)
        let errors = Conf.diagnostics(without).filter { $0.severity == .error }
        #expect(
            errors.map(\.message) == [
                "devices of the app `android:org.example.other` cannot enrol: anyone can sign an app of this name"
            ])
        let with = Conf.enrolling(
            replacing: "id: ABCDE12345.org.example.other\n    environment: development",
            by: app + "\n    signing_certificates: [\(String(repeating: "a5", count: 32))]")
        #expect(try Conf.read(with).configuration.apps.last?.signingCertificates?.count == 1)
    }

    // MARK: - Roles

    /// A file system that records every path.
    private final class Asked: @unchecked Sendable {
        // One thread reads a conf file.
        var paths: Set<String> = []
    }

    private func asked(_ role: Role) throws -> Set<String> {
        let asked = Asked()
        let note: @Sendable (String) -> String? = { path in
            asked.paths.insert(path)
            return nil
        }
        let files = FileInspector(objection: note, makingObjection: note, privacyObjection: note)
        let configuration = try Conf.read(Conf.enrolling, files: files, role: role).configuration
        #expect(configuration.role == role && configuration.enrolment != nil)
        return asked.paths
    }

    @Test("the role gateway reads no enrolment file, in particular not the CA's key")
    func gatewayRole() throws {
        let paths = try asked(.gateway)
        #expect(paths.isDisjoint(with: ["conf/ca.key", "conf/ca.passphrase", "conf/login.pem"]))
        #expect(paths.isSuperset(of: ["conf/server.key", "conf/ca.pem", "conf/registry.sqlite"]))
        #expect(try asked(.both).isSuperset(of: ["conf/ca.key", "conf/ca.passphrase", "conf/login.pem"]))
    }

    @Test("the role enrolment reads no file of the listeners")
    func enrolmentRole() throws {
        let text = Conf.enrolling(
            replacing: "clients:\n      authorities: [ca.pem]", by: "clients:\n      authorities: [ca.pem, phones.pem]")
        let files = FileInspector { $0 == "conf/phones.pem" ? "Permission denied" : nil }
        #expect(Conf.diagnostics(text, files: files).count == 1)
        _ = try Conf.read(text, files: files, role: .enrolment)
    }

    @Test("the role enrolment exports no spans and reads no file for them")
    func enrolmentWithoutSpans() throws {
        let text =
            Conf.enrolling
            + "\ntracing: { endpoint: 'https://localhost:4318', authorities: web.pem, token_file: token }\n"
        let files = FileInspector { $0 == "conf/web.pem" ? "Permission denied" : nil }
        #expect(Conf.diagnostics(text, files: files).count == 1)
        let tracing = try Conf.read(text, files: files, role: .enrolment).configuration.tracing
        #expect(tracing?.tokenPath == "conf/token")
    }

    @Test("the role enrolment requires the enrolment section")
    func enrolmentWithoutSection() throws {
        let error = try #require(throws: ConfigurationError.self) { try Conf.read(Conf.attested, role: .enrolment) }
        #expect(error.diagnostics.map(\.message) == ["the role `enrolment` needs the section `enrolment`"])
        _ = try Conf.read(Conf.attested, role: .gateway)
    }
}
