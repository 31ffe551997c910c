import Testing

@testable import GatewayConfiguration

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

    @Test("a resource that is not named concerns the whole file")
    func unnamed() throws {
        #expect(try Self.place(.file("other"), in: Conf.valid) == "conf/attestgate.yaml: error: it is at fault")
    }
}
