import Chance
import Testing

@testable import TLS

@Suite("Server names")
struct ServerNameTests {
    @Test(
        "a name consists of labels and is kept in lower case",
        arguments: ["localhost", "a", "records.example.org", "xn--dmin-moa.example", "1.example"])
    func names(text: String) throws {
        #expect(ServerName(text)?.text == text)
        #expect(ServerName(text.uppercased()) == ServerName(text))
    }

    @Test(
        "addresses, second spellings and characters that Host cannot have are refused",
        arguments: [
            "", ".", "localhost.", ".localhost", "a..b", "127.0.0.1", "2130706433", "a.1", "::1", "[::1]",
            "a_b.example",
            "a b", "a/b", "a:443", "*.example.org", "bücher.example", "a\0b", "a\nb", String(repeating: "a", count: 64),
            String(repeating: "a.", count: 127),
        ])
    func noNames(text: String) {
        #expect(ServerName(text) == nil)
    }

    @Test("a name of the maximum length is accepted")
    func longest() {
        let label = String(repeating: "a", count: 63)
        let name = [label, label, label, String(repeating: "a", count: 61)].joined(separator: ".")
        #expect(name.utf8.count == 253 && ServerName(name)?.text == name)
        #expect(ServerName(name + "a") == nil)
    }

    @Test("a name is found among others by its bytes, in any case")
    func table() throws {
        let texts = ["b.example", "a.example", "a", "a.example.org", "ab", "b", "zz.example", "a-b", "a0.b"]
        let names = try texts.map { try #require(ServerName($0)) }
        let table = ServerNameTable(names.enumerated().map { (name: $1, value: $0) })
        func find(_ text: String) -> String? {
            table.place(of: Array(text.utf8).span).map { texts[table.entries[$0].value] }
        }
        for text in texts {
            #expect(find(text) == text)
            #expect(find(text.uppercased()) == text)
            for other in ["\(text)x", "0\(text)", String(text.dropLast()), "\(text)."] where !texts.contains(other) {
                #expect(find(other) == nil, "\(other)")
            }
        }
        #expect(ServerNameTable<Int>([]).place(of: Array("a".utf8).span) == nil)
    }
}

@Suite("The extension server_name")
struct ServerNameExtensionTests {
    private func parse(_ bytes: [UInt8]) throws(ClientHelloFault) -> ServerName {
        try ServerNameExtension.parse(bytes.span)
    }

    private func entry(_ name: String, type: UInt8 = 0) -> [UInt8] {
        [type] + length(name.utf8.count) + Array(name.utf8)
    }

    private func length(_ count: Int) -> [UInt8] { [UInt8(count >> 8), UInt8(count & 0xff)] }

    private func list(_ entries: [UInt8]...) -> [UInt8] {
        let all = entries.flatMap(\.self)
        return length(all.count) + all
    }

    @Test("the extension holds one name")
    func one() throws {
        #expect(try parse(list(entry("Records.Example.ORG"))).text == "records.example.org")
        let long = (0..<4).map { _ in String(repeating: "a", count: 62) }.joined(separator: ".")
        #expect(try parse(list(entry(long))).text == long)
    }

    @Test("no name, several names or anything else is malformed")
    func malformed() {
        let whole = list(entry("a.example"))
        var broken: [[UInt8]] = (0..<whole.count).map { Array(whole.prefix($0)) }
        broken += [
            whole + [0], list(entry("a"), entry("b")), list(entry("a", type: 1)), list(entry("a"), entry("b", type: 1)),
        ]
        // Either length one more, or one less.
        for place in [1, 4] {
            for difference in [1, -1] {
                var other = whole
                other[place] = UInt8(Int(other[place]) + difference)
                broken.append(other)
            }
        }
        for bytes in broken {
            #expect(throws: ClientHelloFault.serverNameMalformed, "\(bytes)") { try parse(bytes) }
        }
    }

    @Test(
        "a name that is not a host is refused",
        arguments: ["127.0.0.1", "a.example.", "::1", "a b", "a\0.example", ""])
    func noHost(name: String) {
        #expect(throws: ClientHelloFault.serverNameNoHost) { try parse(list(entry(name))) }
    }

    @Test("random bytes give a valid name or an error")
    func anyBytes() {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<20_000 {
            var bytes = list(entry("records.example.org"))
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0...255, using: &generator)
            }
            guard let name = try? parse(bytes) else { continue }
            #expect(ServerName(name.text) == name, "seed \(seed): \(bytes)")
        }
    }
}
