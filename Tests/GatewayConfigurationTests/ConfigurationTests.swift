import Testing

@testable import GatewayConfiguration

@Suite("Reading the conf file")
struct ConfigurationTests {
    @Test("omitted settings have their defaults")
    func defaults() throws {
        let (configuration, warnings) = try Conf.read(Conf.valid)
        #expect(warnings.isEmpty)
        #expect(configuration.workers == .automatic)
        #expect(configuration.listeners.map(\.tls?.policy) == [.modern])
        #expect(configuration.listeners.map(\.protocols) == [[.http2, .http11]])
        let upstream = try #require(configuration.upstreams["records"])
        #expect(!upstream.isPlaintextAccepted && upstream.tls == nil)
        #expect(upstream.connections == 1024)
        #expect(upstream.idleConnections == 128)
        #expect(upstream.connectTimeout == .seconds(5))
        #expect(upstream.responseTimeout == .seconds(60))
        #expect(upstream.contentTimeout == upstream.responseTimeout)
        #expect(upstream.idleTimeout == .seconds(60))
        #expect(upstream.balance == .roundRobin && upstream.health == nil)
        #expect(upstream.connectionsPerServer == nil && upstream.requests == nil)
        #expect(upstream.waiting == 256 && upstream.waitingTimeout == .seconds(2))
        #expect(upstream.ejection.failures == 5 && upstream.ejection.minimumServers == 1)
        #expect(upstream.ejection.time == .seconds(10) && upstream.ejection.longest == .seconds(300))
        #expect(configuration.routes.map(\.methods) == [Set(RouteConfiguration.Method.allCases)])
        #expect(configuration.routes.map(\.contentLimit) == [1 << 20])
        #expect(configuration.routes.map(\.apps) == [[]])
        #expect(configuration.routes.map(\.components) == [[]])
        #expect(configuration.apps.isEmpty)
        #expect(configuration.registry == nil)
        #expect(configuration.enrolment == nil)
        #expect(configuration.administration == nil)
        #expect(configuration.proof.maxAge == .seconds(300))
        #expect(configuration.proof.challengeLife == .seconds(300))
        #expect(configuration.resolver.nameservers.isEmpty)
        #expect(configuration.resolver.timeout == .seconds(1) && configuration.resolver.attempts == 3)
        #expect(configuration.resolver.minimumTTL == .seconds(5) && configuration.resolver.maximumTTL == .seconds(300))
        #expect(configuration.limits.connections == 10_000)
        #expect(configuration.limits.head == 16 << 10)
        #expect(configuration.limits.target == 8 << 10)
        #expect(configuration.limits.fields == 100)
        #expect(configuration.limits.requestsPerConnection == 10_000)
        #expect(configuration.limits.heldContent == 256 << 20)
        #expect(configuration.timeouts.handshake == .seconds(10))
        #expect(configuration.timeouts.head == .seconds(10))
        #expect(configuration.timeouts.contentIdle == .seconds(30))
        #expect(configuration.timeouts.keepAlive == .seconds(75))
        #expect(configuration.timeouts.shutdown == .seconds(30))
        #expect(configuration.strippedFields.isEmpty && configuration.forwardedFields.isEmpty)
        #expect(configuration.listeners.map(\.ports) == [[]])
        #expect(configuration.routes.map(\.unusualFields) == [[]])
        #expect(configuration.log.access == .standardOutput)
        #expect(configuration.log.format == .json && configuration.log.fields.isEmpty)
        #expect(configuration.log.sample == 1 && configuration.log.refusalsPerSecond == 1000)
        #expect(configuration.log.level == .info)
        #expect(configuration.denialURI == "urn:attestgate:denial:")
    }

    @Test("every given setting is kept")
    func everything() throws {
        let text = """
            workers: 4
            listeners:
              - address: "[0:0::1]:8443"
                ports: [443, 9443]
                tls: { certificate: /etc/server.pem, key: server.key, policy: intermediate, ocsp_response: ocsp.der }
                clients: { authorities: [a.pem, b.pem] }
            upstreams:
              far-1:
                servers: [records.internal:9000, "[2001:db8::1]:9001"]
                plaintext: accepted
                connections: 10
                idle_connections: 10
                connect_timeout: 500ms
                response_timeout: 2m
                idle_timeout: 1h
            routes:
              - name: all
                host: "[::1]"
                path: /
                methods: [GET, DELETE]
                require: certificate
                upstream: far-1
                content_limit: 4096
                unusual_headers: [X.Custom, "`X"]
            limits: { connections: 5, head: 24KiB, target: 24KiB, fields: 8, requests_per_connection: 1 }
            timeouts: { handshake: 1s, head: 2s, content_idle: 3s, keep_alive: 4s, shutdown: 5s }
            strip_headers: [X-Internal-User]
            forward_headers: [X-Host, X-Auth-Request-User]
            log:
              access: logs/access.log
              format: console
              fields: [user_agent, path, query, client_address]
              sample: 1000000
              refusals_per_second: 1
              level: debug
            resolver:
              nameservers: [127.0.0.53:53, "[::1]:5353"]
              timeout: 250ms
              attempts: 10
              minimum_ttl: 1s
              maximum_ttl: 1h
            denial_uri: https://example.org/denials#
            """
        let (configuration, warnings) = try Conf.read(text)
        #expect(warnings.allSatisfy { $0.message.hasPrefix("one device may have ") })
        #expect(configuration.workers == .exactly(4))
        let listener = try #require(configuration.listeners.first)
        #expect(listener.address.description == "[::1]:8443")
        #expect(listener.tls?.certificatePath == "/etc/server.pem")
        #expect(listener.tls?.keyPath == "conf/server.key")
        #expect(listener.tls?.policy == .intermediate)
        #expect(listener.tls?.responsePath == "conf/ocsp.der")
        #expect(listener.clients?.authoritiesPaths == ["conf/a.pem", "conf/b.pem"])
        let upstream = try #require(configuration.upstreams["far-1"])
        #expect(upstream.servers.map(\.description) == ["records.internal:9000", "[2001:db8::1]:9001"])
        #expect(upstream.servers.map(\.isLiteral) == [false, true])
        #expect(upstream.isPlaintextAccepted)
        #expect(upstream.idleConnections == 10)
        #expect(upstream.connectTimeout == .milliseconds(500))
        #expect(upstream.responseTimeout == .seconds(120))
        #expect(upstream.idleTimeout == .seconds(3600))
        let route = try #require(configuration.routes.first)
        #expect(route.host == "[::1]")
        #expect(route.path == "/")
        #expect(route.methods == [.get, .delete])
        #expect(route.require == .certificate)
        #expect(route.contentLimit == 4096)
        #expect(configuration.limits.target == 24 << 10)
        #expect(configuration.timeouts.shutdown == .seconds(5))
        #expect(configuration.strippedFields == ["x-internal-user"])
        #expect(configuration.forwardedFields == ["x-host", "x-auth-request-user"])
        #expect(listener.ports == [443, 9443] && route.unusualFields == ["x.custom", "`x"])
        #expect(configuration.log.access == .file("conf/logs/access.log"))
        #expect(configuration.log.format == .console)
        #expect(configuration.log.fields == [.userAgent, .path, .query, .clientAddress])
        #expect(configuration.log.sample == 1_000_000 && configuration.log.refusalsPerSecond == 1)
        #expect(configuration.log.level == .debug)
        #expect(configuration.resolver.nameservers.map(\.description) == ["127.0.0.53:53", "[::1]:5353"])
        #expect(configuration.resolver.timeout == .milliseconds(250) && configuration.resolver.attempts == 10)
        #expect(configuration.resolver.minimumTTL == .seconds(1) && configuration.resolver.maximumTTL == .seconds(3600))
        #expect(configuration.denialURI == "https://example.org/denials#")
    }

    @Test("a journal at the default of earlier versions stays in use, with a warning, unless it was moved")
    func formerJournal() throws {
        let (former, present) = ("conf/registry.sqlite.revocations", "conf/challenge.secret.revocations")
        for (there, used, count) in [
            ([former], former, 1), ([former, present], present, 0), ([present], present, 0), ([], present, 0),
        ] {
            let files = FileInspector(objection: { _ in nil }, existence: { there.contains($0) })
            let (configuration, warnings) = try Conf.read(Conf.attested, files: files)
            #expect(configuration.registry?.revocationsPath == used)
            #expect(warnings.count == count)
            #expect(warnings.first?.expected.map { $0.contains(present) } ?? true)
        }
    }

    @Test("every setting for request proofs is kept")
    func attested() throws {
        let (configuration, warnings) = try Conf.read(Conf.attested)
        #expect(warnings.isEmpty)
        let route = try #require(configuration.routes.first)
        #expect(route.require == .requestProof)
        #expect(route.apps.map(\.description) == ["ABCDE12345.org.example.app"])
        #expect(route.components == ["x-location"])
        #expect(route.body == .collect)
        #expect(
            configuration.apps.map(\.id.description) == ["ABCDE12345.org.example.app", "ABCDE12345.org.example.other"])
        #expect(configuration.apps.map(\.environments) == [[.production], [.development]])
        #expect(configuration.apps.map(\.counter) == [.window(64), .window(1024)])
        let registry = try #require(configuration.registry)
        #expect(registry.path == "conf/registry.sqlite")
        #expect(registry.secretPath == "conf/challenge.secret")
        #expect(registry.revocationsPath == "conf/challenge.secret.revocations")
        #expect(registry.devices == 1000)
        #expect(configuration.administration?.socketPath == "conf/administration.socket")
        #expect(configuration.proof.maxAge == .seconds(60))
        #expect(configuration.proof.challengeLife == .seconds(120))
    }

    @Test("a registry in a database needs TLS, except on this machine")
    func database() throws {
        let near = Conf.attested.replacing(
            "path: registry.sqlite", with: "postgresql: { hosts: [/run/postgresql, 127.0.0.1, localhost] }")
        let registry = try #require(try Conf.read(near).configuration.registry)
        #expect(registry.path == nil)
        let standard = try #require(registry.postgresql)
        #expect(registry.store == .postgresql(standard))
        #expect(standard.hosts == ["/run/postgresql", "127.0.0.1", "localhost"] && standard.port == 5432)
        #expect(standard.database == "attestgate" && standard.user == "attestgate")
        #expect(standard.passwordPath == nil && standard.tls == nil)
        let far = Conf.attested.replacing(
            "path: registry.sqlite",
            with: """
                postgresql:
                    hosts: [db.internal, "[2001:db8::1]"]
                    port: 5433
                    database: phones
                    user: gateway
                    password_file: server.key
                    tls: { authorities: ca.pem, certificate: server.pem, key: server.key }
                """)
        let other = try #require(try Conf.read(far).configuration.registry?.postgresql)
        #expect(other.hosts == ["db.internal", "2001:db8::1"] && other.port == 5433)
        #expect(other.database == "phones" && other.user == "gateway" && other.passwordPath == "conf/server.key")
        let tls = try #require(other.tls)
        #expect(tls.authoritiesPath == "conf/ca.pem")
        #expect(tls.certificatePath == "conf/server.pem" && tls.keyPath == "conf/server.key")
    }

    @Test("a registry keeps 65536 device records in memory by default")
    func devices() throws {
        let text = Conf.attested(replacing: "  devices: 1000\n", by: "")
        #expect(try Conf.read(text).configuration.registry?.devices == 65_536)
    }

    @Test(
        "with registry and apps every requirement is available, and request-proof is the default",
        arguments: [
            ("    require: certificate\n", RouteConfiguration.Requirement.certificate),
            ("    require: device\n", .device), ("", .requestProof),
        ])
    func levels(line: String, require: RouteConfiguration.Requirement) throws {
        let lines = "    require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n"
        let text = Conf.attested(replacing: lines, by: line)
        #expect(try Conf.read(text).configuration.routes.map(\.require) == [require])
    }

    @Test("streamed content may be larger than held content")
    func streamedContent() throws {
        let text = Conf.attested(
            replacing: "    upstream: records\n",
            by: "    upstream: records\n    content_limit: 1GiB\n    body: stream\n")
        let route = try #require(try Conf.read(text).configuration.routes.first)
        #expect(route.body == .stream && route.contentLimit == 1 << 30)
    }

    @Test("a route without apps admits every configured app")
    func allApps() throws {
        let text = Conf.attested(replacing: "    apps: [ABCDE12345.org.example.app]\n", by: "")
        let configuration = try Conf.read(text).configuration
        #expect(configuration.routes.map(\.apps) == [configuration.apps.map(\.id)])
    }

    @Test("the form of its id makes an app an Android app, of which no category is required")
    func androidApp() throws {
        let text = Conf.attested(
            replacing: "id: ABCDE12345.org.example.other\n    environment: development",
            by: "id: android:org.example.other\n    environment: production\n    client_data: nonce")
        let app = try #require(try Conf.read(text).configuration.apps.last)
        #expect(app.id.isAndroid && app.id.description == "android:org.example.other")
        #expect(app.validationCategories(in: .simulator) == nil)
        #expect(app.signingCertificates == nil && app.minimumPatchLevel == nil && app.minimumVersionCode == nil)
        #expect(app.securityLevel == .tee && app.certificateKey == .any && app.attestKey == .refuse)
        #expect(app.boot == .verified)
    }

    @Test("the demands on an Android app are read, with signing certificates as tools print them")
    func androidDemands() throws {
        let colons = [String](repeating: "A5", count: 32).joined(separator: ":")
        let plain = String(repeating: "0b", count: 32)
        let text = Conf.attested(
            replacing: "id: ABCDE12345.org.example.other\n    environment: development",
            by: """
                id: android:org.example.other
                    environment: production
                    signing_certificates: ["\(colons)", \(plain)]
                    security_level: strongbox
                    certificate_key: attested
                    minimum_patch_level: 2026-01
                    minimum_version_code: 1042
                    attest_key: allow
                    boot: any
                """)
        let (configuration, warnings) = try Conf.read(text)
        let app = try #require(configuration.apps.last)
        #expect(
            app.signingCertificates?.map(\.digest)
                == [[UInt8](repeating: 0xa5, count: 32), [UInt8](repeating: 0x0b, count: 32)])
        #expect(app.securityLevel == .strongbox && app.certificateKey == .attested && app.attestKey == .allow)
        #expect(app.minimumPatchLevel?.number == 202_601 && app.minimumVersionCode == 1042 && app.boot == .any)
        #expect(warnings.map(\.message) == ["phones with any system can enrol: use this for tests only"])
    }

    @Test("an app that accepts software phones is a warning at its place")
    func simulator() throws {
        let text = Conf.attested(replacing: "environment: development", by: "environment: simulator")
        let (configuration, warnings) = try Conf.read(text)
        #expect(configuration.apps.map(\.environments) == [[.production], [.simulator]])
        try #require(warnings.count == 1)
        #expect(warnings[0].severity == .warning)
        #expect(
            warnings[0].message
                == "the app `ABCDE12345.org.example.other` accepts software phones: use this for tests and demonstrations only"
        )
        #expect(warnings[0].place == Place(line: 24, column: 18, length: 9))
    }

    @Test("the longest socket path is accepted, one byte less than the system's buffer")
    func longSocket() throws {
        let name = String(repeating: "s", count: 107 - "conf/".utf8.count)
        let text = Conf.attested(replacing: "socket: administration.socket", by: "socket: \(name)")
        #expect(try Conf.read(text).configuration.administration?.socketPath.utf8.count == 107)
    }

    @Test("every route reports once what its requirement lacks, whatever else is wrong")
    func routesWithoutRegistry() {
        let text =
            Conf.valid(replacing: "require: certificate", by: "require: device")
            + "  - { name: b, host: localhost, path: b, upstream: records }\n"
        #expect(Conf.diagnostics(text).map(\.line) == [15, 17, 17])
    }

    @Test(
        "relative paths start at the directory of the conf file",
        arguments: [
            ("attestgate.yaml", "server.pem"), ("./attestgate.yaml", "./server.pem"),
            ("/etc/attestgate/gate.yaml", "/etc/attestgate/server.pem"), ("/gate.yaml", "/server.pem"),
        ])
    func relativePaths(conf: String, certificate: String) throws {
        let (configuration, _) = try Configuration.parse(Array(Conf.valid.utf8), path: conf, files: Conf.anyFile)
        #expect(configuration.listeners.map(\.tls?.certificatePath) == [certificate])
    }

    @Test("all mistakes are reported at once, in the order of the file")
    func allAtOnce() {
        let text = """
            worker: 4
            listeners:
              - address: localhost:8443
                tls:
                  certificate: server.pem
            upstreams:
              records:
                servers: [127.0.0.1:9000]
                connections: many
            routes:
              - name: records
                host: localhost
                path: records
                upstream: record
            """
        let diagnostics = Conf.diagnostics(text)
        #expect(diagnostics.compactMap(\.line) == [1, 3, 3, 5, 9, 11, 13, 14])
        #expect(diagnostics.allSatisfy { $0.severity == .error && $0.file == Conf.path })
    }

    @Test("a file that cannot be used is reported where it is named")
    func files() throws {
        let files = FileInspector { $0 == "conf/ca.pem" ? "it is empty" : nil }
        let diagnostics = Conf.diagnostics(Conf.valid, files: files)
        try #require(diagnostics.count == 1)
        #expect(diagnostics[0].message == "the file `conf/ca.pem` cannot be used: it is empty")
        #expect((diagnostics[0].line, diagnostics[0].column) == (7, 21))
    }

    @Test("a file that cannot be created is reported where it is named")
    func filesToMake() throws {
        let files = FileInspector(
            objection: { _ in nil },
            makingObjection: { $0 == "conf/challenge.secret" ? "its directory: No such file or directory" : nil })
        let diagnostics = Conf.diagnostics(Conf.attested, files: files)
        try #require(diagnostics.count == 1)
        #expect(
            diagnostics[0].message
                == "the file `conf/challenge.secret` cannot be used: its directory: No such file or directory")
        #expect((diagnostics[0].line, diagnostics[0].column) == (27, 11))
    }

    @Test("TLS settings of an upstream are kept, with defaults for the rest")
    func upstreamTLS() throws {
        func tls(_ text: String) throws -> UpstreamTLSConfiguration {
            let conf = Conf.valid(
                replacing: "    servers: [127.0.0.1:9000]\n",
                by: "    servers: [records.internal:9000]\n    tls: \(text)\n")
            return try #require(try Conf.read(conf).configuration.upstreams["records"]?.tls)
        }
        let least = try tls("{ authorities: /etc/ca.pem }")
        #expect(least.authoritiesPaths == ["/etc/ca.pem"] && least.policy == .modern)
        #expect(least.serverName == nil && least.identity == nil)
        let most = try tls(
            "{ authorities: [a.pem, b.pem], server_name: records.example, certificate: us.pem, key: us.key, policy: intermediate }"
        )
        #expect(most.authoritiesPaths == ["conf/a.pem", "conf/b.pem"] && most.policy == .intermediate)
        #expect(most.serverName == "records.example")
        #expect(most.identity?.certificatePath == "conf/us.pem" && most.identity?.keyPath == "conf/us.key")
        #expect(try tls("{ authorities: a.pem, server_name: '[2001:db8::1]' }").serverName == "2001:db8::1")
    }

    @Test("diagnostics above the limit are only counted")
    func manyDiagnostics() throws {
        let text = (0..<500).map { "key\($0): 1\n" }.joined() + Conf.valid
        let error = try #require(throws: ConfigurationError.self) { try Conf.read(text) }
        #expect(error.diagnostics.count == 100)
        #expect(error.omitted == 400)
        #expect(error.description.hasSuffix("and 400 more"))
    }
}
