import Testing

@testable import Administration

@Suite("The token of the administration")
struct AdministrationTokenTests {
    private static let text = String(repeating: "aB3-", count: 8)

    @Test("is what stands in its file, without what surrounds it")
    func trimming() throws {
        let token = try #require(AdministrationToken(Array(" \(Self.text)\r\n".utf8)))
        #expect(token == AdministrationToken(Array(Self.text.utf8)))
        #expect(token.isMeant(by: "Bearer \(Self.text)"))
    }

    @Test(
        "is refused when it is short, long, or no single word of printable characters",
        arguments: [
            "", "\n", String(text.dropLast()), String(repeating: "a", count: 1_025), "\(text) \(text)", "\(text)\u{7F}",
            "ä\(text)",
        ])
    func refused(_ text: String) {
        #expect(AdministrationToken(Array(text.utf8)) == nil)
    }

    @Test(
        "opens to nothing but itself",
        arguments: [
            "", "Bearer", "Bearer ", text, "Basic \(text)", "Bearer  \(text)", "Bearer \(text.dropLast())",
            "Bearer \(text)x", "Bearer \(text) ", "Bearer\t\(text)",
        ])
    func others(_ credentials: String) throws {
        let token = try #require(AdministrationToken(Array(Self.text.utf8)))
        #expect(!token.isMeant(by: credentials))
    }
}
