import Enrolment
import Testing

@Suite("The provider's URL")
struct ProviderURLTests {
    @Test("only an https URL in its one spelling is accepted")
    func spelling() {
        for text in ["https://enrol.example.org", "https://enrol.example.org:8444/gms", "https://[::1]:8444"] {
            #expect(ProviderURL(text)?.text == text)
        }
        let long = "https://" + String(repeating: "a", count: 1024)
        for text in [
            "", "https://", "http://a", "https://a/", "https://a?b", "https://a#b", "https://a b", "https://a\"b",
            "https://\u{e4}", "HTTPS://a", "https://a\n", "https://a@b", long,
        ] { #expect(ProviderURL(text) == nil, "\(text.prefix(40))") }
    }
}
