import Testing

@testable import GatewayConfiguration

@Suite("Limits before the parser")
struct SourceGuardTests {
    @Test("a file larger than 1 MiB is refused")
    func huge() throws {
        let comment = String(repeating: "#", count: 1 << 20)
        #expect(Conf.diagnostics(comment).map(\.message) == ["the file is empty"])
        #expect(Conf.diagnostics(comment + "#").map(\.message) == ["the file is larger than 1MiB"])
    }

    @Test(
        "nesting beyond the limit is refused at its place",
        arguments: [("[", 1, 65), ("{a: ", 1, 257), ("- ", 1, 200_001), ("? ", 1, 200_001), ("[\n", 65, 1)])
    func deep(level: String, line: Int, column: Int) throws {
        let text = String(repeating: level, count: 100_000) + "a"
        let diagnostics = Conf.diagnostics(text)
        try #require(diagnostics.count == 1)
        #expect(diagnostics[0].message == "this is nested more than 64 levels deep")
        #expect(diagnostics[0].place == Place(line: line, column: column))
    }

    @Test("nesting that the bracket count misses is limited too")
    func hidden() throws {
        let hiding = String(repeating: "['] ] ] ]', ", count: 5000)
        #expect(!Conf.diagnostics(hiding).isEmpty)
        let staircase = (0..<120).map { String(repeating: " ", count: $0) + "a:\n" }.joined()
        #expect(Conf.diagnostics(staircase).contains { $0.message == "this is nested more than 64 levels deep" })
    }

    @Test("brackets in comments do not count as nesting")
    func comments() throws {
        let comment = "  # " + String(repeating: "[", count: 200) + "\n"
        _ = try Conf.read(comment + Conf.valid)
    }

    @Test("bytes that are not UTF-8 are refused at the first one")
    func notUTF8() throws {
        let bytes = Array("workers: 1\nhöst: ".utf8) + [0xC3, 0x28]
        let error = try #require(throws: ConfigurationError.self) {
            try Configuration.parse(bytes, path: Conf.path, files: Conf.anyFile)
        }
        #expect(error.diagnostics.map(\.message) == ["this is not UTF-8"])
        #expect(error.diagnostics.first?.place == Place(line: 2, column: 7))
    }

    @Test("a byte order mark and CRLF line ends change nothing")
    func lineEnds() throws {
        let text = "\u{FEFF}" + Conf.valid.split(separator: "\n").joined(separator: "\r\n") + "\r\n"
        #expect(try Conf.read(text).configuration == Conf.read(Conf.valid).configuration)
        #expect(Conf.diagnostics(text + "banana: 1").first?.place == Place(line: 17, column: 1, length: 6))
    }

    @Test("aliases of aliases do not expand exponentially")
    func laughter() {
        var text = "a: &a [x, x]\n"
        for (name, before) in zip("bcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxy") {
            text += "\(name): &\(name) [\(Array(repeating: "*\(before)", count: 9).joined(separator: ", "))]\n"
        }
        #expect(Conf.diagnostics(text).contains { $0.message == "anchors and aliases are not supported" })
    }

    @Test("any number of repeated keys is refused")
    func repeatedKeys() {
        let few = Conf.diagnostics("a: 1\na: 2\na: 3\nb: 1\nb: 2\n" + Conf.valid).map(\.message)
        #expect(few.filter { $0.hasPrefix("duplicate key `a`") }.count == 2)
        #expect(few.filter { $0.hasPrefix("duplicate key `b`") }.count == 1)
        let many = Conf.diagnostics(String(repeating: "a: 1\n", count: 1000))
        #expect(many.map(\.message) == ["a key occurs twice in this mapping"])
        #expect(Conf.diagnostics("'': 1\n'': 2\n").map(\.message) == ["a key occurs twice in this mapping"])
    }
}
