import Testing
import Vocabulary

@Suite("App ids")
struct AppIDTests {
    @Test(
        "the forms that Apple signs are app ids and keep their text",
        arguments: [
            "0352187391.com.apple.example_app_attest", "1363896240.5", "V8H6LQ9448.io.uebelacker.AppAttestExample",
            "6MURL8TA57.de.vincent-haupert.apple-appattest-poc", "ABCDE12345." + String(repeating: "b", count: 155),
        ])
    func accepted(_ text: String) throws {
        #expect(try #require(AppID(text)).description == text)
    }

    @Test(
        "every other text is refused",
        arguments: [
            "", ".", "ABCDE12345", "ABCDE12345.", "abcde12345.org.example", "ABCDE1234.org.example",
            "ABCDE123456.org.example", "ABCDE12345..example", "ABCDE12345.org.", "ABCDE12345.org.ex ample",
            "ABCDE12345.org.exämple", "ABCDE12345.org.ex\nample", "ABCDE12345.org.ex\u{0}",
            "ABCDE12345." + String(repeating: "b", count: 156), "АBCDE1234.org.example",
        ])
    func refused(_ text: String) {
        #expect(AppID(text) == nil)
    }

    @Test("app ids that differ in case are different")
    func caseCounts() {
        #expect(AppID("ABCDE12345.org.example") != AppID("ABCDE12345.org.Example"))
    }
}
