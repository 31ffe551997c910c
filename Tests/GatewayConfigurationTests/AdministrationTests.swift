import Testing

@testable import GatewayConfiguration

@Suite("The administration in the conf file")
struct AdministrationTests {
    /// A file system in which every file exists, with a runtime directory.
    private static func running(in directory: String, objection: String? = nil) -> FileInspector {
        FileInspector(
            objection: { _ in nil }, makingObjection: { $0.hasPrefix(directory) ? objection : nil },
            runtimeDirectory: { _ in directory })
    }

    private static let listening = Conf.attested(
        replacing: "  socket: administration.socket\n",
        by: """
              socket: administration.socket
              listeners:
                - address: 0.0.0.0:9466
                  level: health

            """)

    @Test("without the section there is a socket in the runtime directory, and none without one")
    func standard() throws {
        let files = Self.running(in: "/run/attest gate")
        let (configuration, warnings) = try Conf.read(Conf.valid, files: files)
        #expect(configuration.administration?.socketPath == "/run/attest gate/administration.socket")
        #expect(configuration.administration?.listeners == [] && warnings.isEmpty)
        #expect(try Conf.read(Conf.valid).configuration.administration == nil)
    }

    @Test("a section of its own, and `off`, count more than the runtime directory")
    func written() throws {
        let files = Self.running(in: "/run/attestgate")
        let own = try Conf.read(Conf.attested, files: files).configuration
        #expect(own.administration?.socketPath == "conf/administration.socket")
        #expect(own.changedDefaults.count == 1 && own.changedDefaults[0].contains("ABCDE12345.org.example.other"))
        let off = try Conf.read(Conf.valid + "administration: off\n", files: files).configuration
        #expect(off.administration == nil && off.changedDefaults.isEmpty)
        #expect(try Conf.read(Conf.valid, files: files).configuration.obstacle(to: off) != nil)
        #expect(try Conf.read(Conf.valid).configuration.changedDefaults.count == 1)
    }

    @Test("a runtime directory without room for a socket is warned of")
    func unusable() throws {
        let files = Self.running(in: "/run/none", objection: "its directory: No such file or directory")
        let (configuration, warnings) = try Conf.read(Conf.valid, files: files)
        #expect(configuration.administration == nil)
        #expect(
            warnings.map(\.message) == [
                "there is no administration socket `/run/none/administration.socket`: its directory: No such file or directory"
            ])
        let long = "/run/" + String(repeating: "d", count: 100)
        #expect(Conf.diagnostics(Conf.valid, files: Self.running(in: long)).map(\.severity) == [.warning])
    }

    @Test("a health listener needs no credentials at any address, and refuses them")
    func health() throws {
        let listeners = try Conf.read(Self.listening).configuration.administration?.listeners
        #expect(listeners?.map(\.level) == [.health])
        for setting in ["token_file: token", "hosts: [\"gateway:9466\"]", "tls: { certificate: a.pem, key: a.key }"] {
            let text = Self.listening.replacing("level: health", with: "level: health\n      \(setting)")
            let messages = Conf.diagnostics(text).map(\.message)
            #expect(messages.count == 1 && messages[0].contains("has no effect with `level: health`"), "\(messages)")
        }
    }
}
