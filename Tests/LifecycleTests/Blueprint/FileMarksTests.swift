import Foundation
import GatewayConfiguration
import Synchronization
import Testing

@testable import Lifecycle

@Suite("Watched files")
struct FileMarksTests {
    private let directory: ScratchDirectory
    private let path: String

    init() throws {
        directory = try ScratchDirectory()
        path = directory.file("watched")
        try write("first")
    }

    private func write(_ text: String, atomically: Bool = false) throws {
        try text.write(toFile: path, atomically: atomically, encoding: .utf8)
    }

    @Test("marks differ after any change: another length, another file, no file")
    func changes() throws {
        let first = FileMarks([path])
        #expect(first.renewed == first)
        try write("longer than the first")
        let second = first.renewed
        #expect(second != first)
        try write("longer than the first", atomically: true)
        let third = first.renewed
        #expect(third != second)
        try FileManager.default.removeItem(atPath: path)
        #expect(first.renewed != third && first.renewed == first.renewed)
    }

    @Test("files are read once, after they stayed unchanged for two looks")
    func reading() throws {
        let known = FileMarks([path])
        var watch = FileWatch(known)
        #expect(Self.looks(2, at: known, by: &watch) == [false, false])
        try write("half of it")
        #expect(Self.looks(1, at: known, by: &watch) == [false])
        try write("half of it, and the rest")
        #expect(Self.looks(4, at: known, by: &watch) == [false, true, false, false])
    }

    @Test("files are not read when a change was undone")
    func takenBack() throws {
        let known = FileMarks([path])
        var watch = FileWatch(known)
        try write("changed")
        #expect(Self.looks(1, at: known, by: &watch) == [false])
        let isRead = watch.shouldRead(known)
        #expect(!isRead)
        #expect(Self.looks(2, at: known, by: &watch) == [false, true])
    }

    private static func looks(_ count: Int, at marks: FileMarks, by watch: inout FileWatch) -> [Bool] {
        (0..<count).map { _ in watch.shouldRead(marks.renewed) }
    }
}

@Suite("The set of watched files")
struct WatchedFilesTests {
    /// Every file there can be.
    private static let conf = """
        listeners:
          - address: 127.0.0.1:8443
            tls:
              certificate: server.pem
              key: server.key
            clients:
              authorities: [ca.pem, root.pem]
              crls: [ca.crl, root.crl]
              crl_policy: require-fresh
        upstreams:
          records:
            servers: [127.0.0.1:9000]
            tls:
              authorities: [services.pem, more-services.pem]
              certificate: gateway.pem
              key: gateway.key
        routes:
          - name: records
            host: localhost
            path: /records
            apps: [ABCDE12345.org.example.app]
            upstream: records
        apps:
          - id: ABCDE12345.org.example.app
            environment: simulator
            attestation_root: simulator.pem
        registry:
          path: registry.sqlite
          secret: challenge.secret
        enrolment:
          address: 127.0.0.1:8444
          tls:
            certificate: enrolment.pem
            key: enrolment.key
          url: https://localhost:8444
          authority:
            certificate: gms.pem
            key: gms.key
            passphrase_file: gms.passphrase
          admission: token
          token:
            issuer: https://login.example.org/
            audience: https://enrol.example.org
            keys: [login.pem, login-next.pem]
        administration:
          socket: administration.socket
          listeners:
            - address: 127.0.0.1:9464
              token_file: token
              tls:
                certificate: administration.pem
                key: administration.key
                clients:
                  authorities: [operators.pem]

        """

    private final class Looked: Sendable {
        let at = Mutex<Set<String>>([])
    }

    @Test(
        "all files read at a start are watched, except the registry's own",
        arguments: [Role.both, .gateway, .enrolment])
    func all(role: Role) throws {
        let looked = Looked()
        let files = FileInspector { path in
            looked.at.withLock { _ = $0.insert(path) }
            return nil
        }
        let configuration = try Configuration.parse(
            Array(Self.conf.utf8), path: "conf/attestgate.yaml", files: files, role: role
        ).configuration
        var expected = looked.at.withLock { $0 }
        // Looked at, since the app names it, but read only by who enrols.
        if role == .gateway { expected.remove("conf/simulator.pem") }
        expected.insert("conf/attestgate.yaml")
        #expect(Set(configuration.watchedFiles) == expected)
        #expect(expected.contains("conf/ca.crl") == (role != .enrolment))
        #expect(expected.contains("conf/gateway.key") == (role != .enrolment))
        #expect(expected.contains("conf/gms.passphrase") == (role != .gateway))
        #expect(expected.isSuperset(of: ["conf/token", "conf/operators.pem"]))
    }
}
