import Glibc
import Testing

@testable import GatewayConfiguration

@Suite("Included conf files")
struct InclusionTests {
    private static let route = """
        routes:
          - name: images
            host: localhost
            path: /images
            require: certificate
            upstream: images

        """
    private static let service = route + "upstreams:\n  images:\n    servers: [127.0.0.1:9001]\n"

    private static func load(
        _ directory: ConfDirectory
    ) throws -> (configuration: Configuration, warnings: [Diagnostic]) {
        try Configuration.load(path: directory.path + "/conf", files: Conf.anyFile)
    }

    /// Returns the diagnostics of the conf file in the directory.
    private static func diagnostics(_ directory: ConfDirectory) throws -> [Diagnostic] {
        do throws(ConfigurationError) {
            return try Configuration.load(path: directory.path + "/conf", files: Conf.anyFile).warnings
        } catch {
            return error.diagnostics
        }
    }

    @Test(
        "included settings count as if written in place: lists and upstreams are joined",
        arguments: ["parts/images", "parts/*", "[parts/images]"])
    func joined(include: String) throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: \(include)\n" + Conf.valid)
        try directory.write("parts/images", Self.service + "strip_headers: [X-Own]\nlimits: { connections: 700 }\n")
        let (configuration, warnings) = try Self.load(directory)
        #expect(warnings.isEmpty)
        #expect(configuration.routes.map(\.name) == ["records", "images"])
        #expect(Set(configuration.upstreams.keys) == ["records", "images"])
        #expect(configuration.strippedFields == ["x-own"] && configuration.limits.connections == 700)
    }

    @Test("paths start at the directory of the file they stand in")
    func paths() throws {
        let directory = try ConfDirectory()
        let listeners = String(
            Conf.valid.prefix(upTo: try #require(Conf.valid.firstRange(of: "upstreams:")).lowerBound))
        let rest = Conf.valid.dropFirst(listeners.count)
        try directory.write("conf", "include: parts/listeners\nlog: { access: ./access.log }\n" + rest)
        try directory.write("parts/listeners", listeners)
        let (configuration, _) = try Self.load(directory)
        #expect(configuration.listeners.map(\.tls?.keyPath) == [directory.path + "/parts/server.key"])
        #expect(configuration.log.access == .file(directory.path + "/./access.log"))
    }

    @Test("included files may include others, by relative and absolute paths")
    func nested() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: parts/first\n" + Conf.valid)
        try directory.write("parts/first", "include: [second, \(directory.path)/third]\n" + Self.route)
        try directory.write("parts/second", "upstreams:\n  images:\n    servers: [127.0.0.1:9001]\n")
        try directory.write("third", "limits: { connections: 7 }\n")
        let (configuration, _) = try Self.load(directory)
        #expect(configuration.upstreams.count == 2 && configuration.limits.connections == 7)
    }

    @Test("files are read in name order without hidden ones, and may be empty")
    func order() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: parts/*\n" + Conf.valid)
        try directory.write("parts/20", "strip_headers: [X-Second]\n")
        try directory.write("parts/10", "strip_headers: [X-First]\n")
        try directory.write("parts/30", "# strip_headers: [X-Third]\n")
        try directory.write("parts/.40", "strip_headers: [X-Fourth]\n")
        #expect(try Self.load(directory).configuration.strippedFields == ["x-first", "x-second"])
    }

    @Test("a mistake in an included file is reported with its name, line and text")
    func diagnostics() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: parts/images\n" + Conf.valid)
        try directory.write("parts/images", Self.service.replacing("upstream: images", with: "upstrem: images"))
        let texts = try Self.diagnostics(directory).map(\.description)
        #expect(
            texts.count == 1
                && texts[0].hasPrefix(
                    """
                    \(directory.path)/parts/images:6:5: error: unknown key `upstrem`
                        6 |     upstrem: images
                          |     ^~~~~~~
                    """)
                && texts[0].hasSuffix("did you mean `upstream`?"), "\(texts)")
    }

    @Test(
        "settings that cannot be joined are refused at their place",
        arguments: [
            // The files by name, the place of the refusal, and its message.
            (["limits: {}\ninclude: a", "limits: {}"], "a:1:1", "`limits` is already set on line 1 of `DIR/conf`"),
            (
                ["include: a", "upstreams:\n  records:\n    servers: [127.0.0.1:1]"], "a:2:3",
                "`records` is already in `upstreams` on line 10 of `DIR/conf`"
            ),
            (["include: a", "routes: none"], "a:1:9", "found `none`"),
            (["include: a", "routes:"], "a:1:1", "`routes` has no value"),
            (["include: a", "- routes"], "a:1:1", "this is not a configuration file"),
            (["include: a", "limits: [a, b\n"], "a:1:9", "this is not YAML"),
            (["include: a", "limits: \u{1}\n"], "a:1:9", "the control character U+0001 is not allowed in YAML"),
            (["include: none"], "conf:1:10", "the file `DIR/none` cannot be included: No such file or directory"),
            (["include: ."], "conf:1:10", "the file `DIR/.` cannot be included: it is not a regular file"),
            (["include: no/*.yaml"], "conf:1:10", "`DIR/no/*.yaml` cannot be searched"),
            (["include:"], "conf:1:1", "`include` has no value"),
            (["include: {a: b}"], "conf:1:11", "found a mapping"),
            (["include: []"], "conf:1:10", "the list is empty"),
            (["include: [a, a]", ""], "conf:1:14", "`DIR/a` is already included, on line 1"),
            (["include: [a, ./a]", ""], "conf:1:14", "`DIR/./a` is already included, on line 1"),
            (["include: conf"], "conf:1:10", "`DIR/conf` includes itself: DIR/conf -> DIR/conf"),
            (
                ["include: a", "include: [b]", "include: a"], "b:1:10",
                "`DIR/a` includes itself: DIR/a -> DIR/b -> DIR/a"
            ),
            (["include: '*'", ""], "conf:1:10", "`DIR/conf` includes itself"),
            (["limits: !include a"], "conf:1:9", "tags are not supported"),
        ] as [([String], String, String)])
    func refused(files: [String], place: String, message: String) throws {
        let directory = try ConfDirectory()
        for (name, text) in zip(["conf", "a", "b"], files) {
            try directory.write(name, text + "\n" + (name == "conf" ? Conf.valid : ""))
        }
        let diagnostics = try Self.diagnostics(directory)
        let first = try #require(diagnostics.first { $0.severity == .error })
        #expect("\(first.file):\(first.line ?? 0):\(first.column ?? 0)" == directory.path + "/" + place, "\(first)")
        #expect(first.message.hasPrefix(message.replacing("DIR", with: directory.path)), "\(first)")
    }

    @Test(
        "the content of a file that is not a conf file is never shown",
        arguments: [
            "hunter2", "!hunter2", "*hunter2", "&hunter2 x", "@hunter2", "\"hunter2", "- hunter2", "[hunter2",
            "%hunter2",
            "host:5432:db:user:hunter2", "password: hunter2", "hunter2: [", "a\tb: hunter2: c",
            "hunter2: 1\nhunter2: 2",
            "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", "<<: hunter2", "{routes: hunter2}",
            "hunter2\u{1}", "\"a\nlog: hunter2\"", "--- hunter2\n--- hunter2",
        ])
    func foreign(text: String) throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: a\n" + Conf.valid)
        try directory.write("a", text + "\n")
        let diagnostics = try Self.diagnostics(directory)
        let said = diagnostics.map(\.description).joined(separator: "\n")
        #expect(diagnostics.contains { $0.severity == .error && $0.file.hasSuffix("/a") })
        #expect(!said.contains("hunter2"), "\(said)")
    }

    @Test("names must be unique across files, and the message names the other file")
    func relations() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: a\n" + Conf.valid)
        try directory.write("a", Self.service.replacing("name: images", with: "name: records"))
        let diagnostics = try Self.diagnostics(directory)
        #expect(
            diagnostics.map(\.message) == [
                "the name `records` is already used by the route on line 13 of `\(directory.path)/conf`"
            ])
    }

    @Test("a pattern without a matching file is a warning, not an error")
    func none() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: '*.yaml'\n" + Conf.valid)
        let (_, warnings) = try Self.load(directory)
        #expect(warnings.map(\.message) == ["no file matches `\(directory.path)/*.yaml`"])
    }

    @Test("depth, number and size of included files are limited")
    func bounds() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: 1\n" + Conf.valid)
        for number in 1...Inclusion.deepest { try directory.write("\(number)", "include: \(number + 1)\n") }
        try directory.write("\(Inclusion.deepest + 1)", "")
        #expect(
            try Self.diagnostics(directory).map(\.message) == ["files include each other more than 8 levels deep"])
        try directory.write("\(Inclusion.deepest)", "")
        _ = try Self.load(directory)

        try directory.write("conf", "include: many/*\n" + Conf.valid)
        for number in 0..<Inclusion.mostFiles { try directory.write("many/\(number)", "") }
        _ = try Self.load(directory)
        try directory.write("many/one", "")
        #expect(try Self.diagnostics(directory).map(\.message) == ["more than 256 files are included"])

        try directory.write("conf", "include: large/*\n" + Conf.valid)
        let padding = String(repeating: "#", count: SourceGuard.largestFile)
        for number in 0..<4 { try directory.write("large/\(number)", padding) }
        _ = try Self.load(directory)
        try directory.write("large/5", "#")
        #expect(try Self.diagnostics(directory).map(\.message) == ["the files that are included have more than 4MiB"])
        try directory.write("large/0", padding + "#")
        #expect(try Self.diagnostics(directory).map(\.message).first == "the file is larger than 1MiB")
    }

    @Test("the administration socket is found in included files, even when one is broken")
    func socket() throws {
        let directory = try ConfDirectory()
        try directory.write("conf", "include: [parts/a]\n" + Conf.valid)
        try directory.write("parts/a", "administration: { socket: own.socket }\n")
        #expect(
            Configuration.administrationSocket(path: directory.path + "/conf") == directory.path + "/parts/own.socket")
        try directory.write("conf", "include: [broken]\nadministration: { socket: own.socket }\n" + Conf.valid)
        #expect(Configuration.administrationSocket(path: directory.path + "/conf") == directory.path + "/own.socket")
        for text in [Conf.valid, "administration: off\n" + Conf.valid] {
            try directory.write("conf", text)
            #expect(Configuration.administrationSocket(path: directory.path + "/conf") == nil)
        }
    }
}

/// A directory that is removed, with its contents, at the end of the test.
private final class ConfDirectory {
    let path: String
    private var files: [String] = []
    private var directories: [String] = []

    struct Failure: Error {}

    init() throws {
        var template = Array("/tmp/attestgate-conf-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failure() }
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Writes a file.
    ///
    /// - Parameter name: the name, after an optional directory, which is created.
    func write(_ name: String, _ text: String) throws {
        if let slash = name.firstIndex(of: "/") {
            let directory = path + "/" + name[..<slash]
            if mkdir(directory, 0o700) == 0 { directories.append(directory) }
        }
        guard let file = fopen(path + "/" + name, "w") else { throw Failure() }
        defer { fclose(file) }
        files.append(path + "/" + name)
        guard fputs(text, file) >= 0 else { throw Failure() }
    }

    deinit {
        for file in files { unlink(file) }
        for directory in directories { rmdir(directory) }
        rmdir(path)
    }
}
