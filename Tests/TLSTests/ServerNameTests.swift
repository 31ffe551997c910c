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
