import Glibc
import Testing

@testable import GatewayConfiguration

@Suite("Files named by the conf file")
struct FileTests {
    @Test("a missing conf file is refused with its path and the system's message")
    func missing() throws {
        let error = try #require(throws: ConfigurationError.self) { try Configuration.load(path: "/no/such/conf") }
        #expect(error.description == "/no/such/conf: error: the file cannot be read: No such file or directory")
    }

    @Test("a directory is refused as a conf file")
    func directory() throws {
        let error = try #require(throws: ConfigurationError.self) { try Configuration.load(path: "/") }
        #expect(error.description == "/: error: the file cannot be read: it is not a regular file")
    }

    @Test("files that the conf file names must exist and not be empty")
    func inspector() throws {
        let directory = try TemporaryDirectory()
        try directory.write("conf", Conf.valid)
        try directory.write("server.pem", "-----BEGIN")
        try directory.write("server.key", "")
        let path = directory.path + "/conf"
        let error = try #require(throws: ConfigurationError.self) { try Configuration.load(path: path) }
        #expect(
            error.diagnostics.map(\.message) == [
                "the file `\(directory.path)/server.key` cannot be used: it is empty",
                "the file `\(directory.path)/ca.pem` cannot be used: No such file or directory",
            ])
        try directory.write("server.key", "-----BEGIN")
        let exposed = try #require(throws: ConfigurationError.self) { try Configuration.load(path: path) }
        #expect(exposed.diagnostics.contains { $0.message.contains("chmod 0600 \(directory.path)/server.key") })
        #expect(chmod(directory.path + "/server.key", 0o600) == 0)
        try directory.write("ca.pem", "-----BEGIN")
        let (configuration, _) = try Configuration.load(path: path)
        #expect(configuration.listeners.map(\.tls?.keyPath) == [directory.path + "/server.key"])
    }

    @Test("files that the gateway creates need a directory, and must not be one")
    func filesToMake() throws {
        let directory = try TemporaryDirectory()
        try directory.write("file", "")
        let objection = FileInspector.system.makingObjection
        #expect(objection(directory.path + "/new") == nil)
        #expect(objection(directory.path + "/file") == nil)
        #expect(objection("new") == nil)
        #expect(objection(directory.path + "/none/new") == "its directory: No such file or directory")
        #expect(objection(directory.path + "/file/new") == "its directory: Not a directory")
        #expect(objection(directory.path) == "it is a directory")
        #expect(objection(directory.path + "/") == "it is a directory")
    }

    @Test("a file with a secret must be its owner's alone")
    func secretFiles() throws {
        let directory = try TemporaryDirectory()
        try directory.write("secret", "secret")
        let path = directory.path + "/secret"
        let objection = FileInspector.system.privacyObjection
        for mode: mode_t in [0o640, 0o604, 0o620, 0o602, 0o610] {
            #expect(chmod(path, mode) == 0)
            #expect(
                objection(path)
                    == "other users can read or write it, but its mode must be 0600: chmod 0600 \(path)")
        }
        for mode: mode_t in [0o600, 0o400] {
            #expect(chmod(path, mode) == 0)
            #expect(objection(path) == nil)
        }
        #expect(objection(path + "s") == "No such file or directory")
        // Another mode would make a certificate no key.
        for mode: mode_t in [0o644, 0o600] {
            try directory.write("secret", "-----BEGIN CERTIFICATE-----")
            #expect(chmod(path, mode) == 0)
            #expect(objection(path) == "it holds a certificate, but no private key: are the paths of the two swapped?")
        }
        try directory.write("secret", "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----")
        #expect(objection(path) == nil)
    }

    @Test("permission denied names this user and the owner of the file")
    func deniedFile() throws {
        let directory = try TemporaryDirectory()
        try directory.write("secret", "secret")
        let path = directory.path + "/secret"
        let user = geteuid()
        #expect(
            OpenFailure.text(of: EACCES, path)
                == "Permission denied: this process has uid \(user), the file belongs to uid \(user)")
        #expect(OpenFailure.text(of: EACCES, path + "s") == "Permission denied: this process has uid \(user)")
        #expect(OpenFailure.text(of: ENOENT, path) == "No such file or directory")
    }

    @Test("a conf file that is too large is refused, and the largest is read")
    func size() throws {
        let directory = try TemporaryDirectory()
        let padding = String(repeating: "#", count: (1 << 20) - Conf.valid.utf8.count)
        try directory.write("fits", Conf.valid + padding)
        try directory.write("large", Conf.valid + padding + "#")
        _ = try Configuration.load(path: directory.path + "/fits", files: Conf.anyFile)
        let error = try #require(throws: ConfigurationError.self) {
            try Configuration.load(path: directory.path + "/large", files: Conf.anyFile)
        }
        #expect(error.diagnostics.map(\.message) == ["the file is larger than 1MiB"])
    }
}

/// A directory that is removed, with its files, at the end of the test.
private final class TemporaryDirectory {
    let path: String
    private var names: [String] = []

    struct Failure: Error {}

    init() throws {
        var template = Array("/tmp/attestgate-conf-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure() }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    func write(_ name: String, _ text: String) throws {
        guard let file = fopen(path + "/" + name, "w") else { throw Failure() }
        defer { fclose(file) }
        names.append(name)
        guard fputs(text, file) >= 0 else { throw Failure() }
    }

    deinit {
        for name in names { unlink(path + "/" + name) }
        rmdir(path)
    }
}
