import Testing

@testable import GatewayConfiguration

@Suite("Declared settings")
struct SettingTests {
    @Test(
        "a key is its property in snake case",
        arguments: [
            ("head", "head"), ("connectionsPerClient", "connections_per_client"), ("minimumTTL", "minimum_ttl"),
            ("keyID", "key_id"), ("denialURI", "denial_uri"),
        ])
    func keys(property: String, key: String) {
        #expect(Section.key(of: property) == key)
    }

    @Test("a refused setting does not keep the others from being read")
    func everyRefusal() {
        let limits = "limits: { memory: 1, connections: none, head: 1GiB, target: 2KiB, fields: 1, unknown: 1 }\n"
        let diagnostics = Conf.diagnostics(Conf.valid + limits)
        #expect(diagnostics.map(\.severity) == Array(repeating: .error, count: 5))
        #expect(diagnostics.compactMap(\.column) == [19, 35, 47, 75, 78])
    }

    @Test("a reload applies a change, or says what to do instead", arguments: Change.all)
    func reload(change: Change) throws {
        let old = try Conf.read(change.old, role: change.role).configuration
        let new = try Conf.read(change.new, role: change.role).configuration
        #expect(old.obstacle(to: new) == change.obstacle)
    }

    /// A changed conf file, with the reason why a reload cannot apply it.
    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let old: String
        let new: String
        let role: Role
        let obstacle: String?

        private init(
            _ description: String, from old: String = Conf.attested, to new: String, role: Role = .both,
            _ obstacle: String?
        ) {
            testDescription = description
            self.old = old
            self.new = new
            self.role = role
            self.obstacle = obstacle
        }

        static let all = [
            Change("limits, timeouts, format of logs", to: Conf.attested + other, nil),
            Change(
                "fewer workers", from: Conf.attested + "workers: 2\n", to: Conf.attested + "workers: 1\n",
                "workers: fewer threads require a restart"),
            Change(
                "more workers", from: Conf.attested + "workers: 2\n", to: Conf.attested + "workers: 3\n",
                "workers: more threads require a restart, or `attestgate upgrade`"),
            Change(
                "workers of a process that has one", from: Conf.enrolling + "workers: 2\n",
                to: Conf.enrolling + "workers: 3\n", role: .enrolment, nil),
            Change(
                "another registry", to: Conf.attested(replacing: "devices: 1000", by: "devices: 1001"),
                "registry: another registry requires a restart, or `attestgate upgrade`"),
            Change(
                "a journal where it is by default",
                to: Conf.attested(
                    replacing: "  devices: 1000", by: "  revocations: challenge.secret.revocations\n  devices: 1000"),
                nil),
            Change(
                "enrolment", to: Conf.enrolling,
                "enrolment: adding or removing the section requires a restart, or `attestgate upgrade`"),
            Change("enrolment in another process", to: Conf.enrolling, role: .gateway, nil),
            Change(
                "another socket", to: Conf.attested(replacing: "administration.socket", by: "other.socket"),
                "administration: another socket or address requires a restart, or `attestgate upgrade`;"
                    + " name the current socket with --socket"),
            Change(
                "no access log", to: Conf.attested + "log: { access: off, level: debug }\n",
                "log: access: turning the log on or off requires a restart, or `attestgate upgrade`"),
            Change(
                "another level", to: Conf.attested + "log: { level: debug }\n",
                "log: level: another level requires a restart, or `attestgate upgrade`"),
        ]

        private static let other =
            "limits: { connections: 7 }\ntimeouts: { head: 1s }\nlog: { access: ./access.log, format: console }\n"
    }
}
