import Testing

@testable import Vocabulary

@Suite("Suggestions for misspelt names")
struct SpellingTests {
    @Test(
        "missing, added, replaced and swapped letters count one each",
        arguments: [
            ("path", "path", 0), ("pth", "path", 1), ("paath", "path", 1), ("puth", "path", 1), ("ptah", "path", 1),
            ("", "path", 4), ("host", "past", 2),
        ])
    func distance(from: String, to: String, distance: Int) {
        #expect(Spelling.distance(Array(from), Array(to)) == distance)
        #expect(Spelling.distance(Array(to), Array(from)) == distance)
    }

    @Test("the nearest name is suggested unless it is too far away")
    func nearest() {
        let keys = ["name", "host", "path", "content_limit"]
        #expect(Spelling.nearest(to: "hots", among: keys) == "host")
        #expect(Spelling.nearest(to: "contentLimit", among: keys) == "content_limit")
        #expect(Spelling.nearest(to: "NAME", among: keys) == "name")
        #expect(Spelling.nearest(to: "banana", among: keys) == nil)
        #expect(Spelling.nearest(to: String(repeating: "n", count: 100_000), among: keys) == nil)
    }

    @Test("a word of another program suggests ours where ours is valid")
    func others() {
        #expect(Spelling.nearest(to: "warn", among: ["debug", "warning", "error"]) == "warning")
        #expect(Spelling.nearest(to: "HTTP2", among: ["h2", "http/1.1"]) == "h2")
        #expect(Spelling.nearest(to: "warn", among: ["debug", "error"]) == nil)
    }
}
