import Testing

@testable import Lifecycle

@Suite("Expiry warnings")
struct ExpiryNewsTests {
    private func item(_ name: String, end: Int64, lead: Int64 = 100) -> ExpiryNews.Item {
        ExpiryNews.Item(name: name, end: end, lead: lead)
    }

    @Test("an expiry is reported once ahead and once when it has passed")
    func twice() {
        var news = ExpiryNews()
        let items = [item("a", end: 1_000), item("b", end: 5_000)]
        #expect(news.of(items, at: 899) == [])
        #expect(news.of(items, at: 900) == ["a ends in 100 s"])
        #expect(news.of(items, at: 999) == [])
        #expect(news.of(items, at: 1_000) == ["a has ended"])
        #expect(news.of(items, at: 2_000) == [])
    }

    @Test("the remaining time is given in the largest unit that fits twice")
    func units() {
        for (left, text) in [(119, "119 s"), (120, "2 minutes"), (7_199, "119 minutes"), (172_800, "2 days")] {
            var news = ExpiryNews()
            #expect(news.of([item("a", end: Int64(left), lead: 1_000_000)], at: 0) == ["a ends in \(text)"])
        }
    }

    @Test("a replaced item is not reported, and one that occurs twice is reported once")
    func replaced() {
        var news = ExpiryNews()
        #expect(news.of([item("a", end: 1_000), item("a", end: 1_000)], at: 950) == ["a ends in 50 s"])
        #expect(news.of([item("a", end: 9_000)], at: 2_000) == [])
        #expect(news.of([item("a", end: 1_000)], at: 2_000) == ["a has ended"])
    }
}
