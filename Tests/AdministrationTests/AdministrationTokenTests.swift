import Testing

@testable import Administration

@Suite("The administration token")
struct AdministrationTokenTests {
    private static let text = String(repeating: "aB3-", count: 8)

    @Test("the token is the text of its file without surrounding white space")
    func trimming() throws {
        let token = try #require(AdministrationToken(Array(" \(Self.text)\r\n".utf8)))
        #expect(token == AdministrationToken(Array(Self.text.utf8)))
        #expect(token.isMeant(by: "Bearer \(Self.text)"))
    }

    @Test(
        "a token that is too short, too long or not one printable word is refused",
        arguments: [
            "", "\n", String(text.dropLast()), String(repeating: "a", count: 1_025), "\(text) \(text)", "\(text)\u{7F}",
            "ä\(text)",
        ])
    func refused(_ text: String) {
        #expect(AdministrationToken(Array(text.utf8)) == nil)
    }

    @Test(
        "only the exact bearer token matches",
        arguments: [
            "", "Bearer", "Bearer ", text, "Basic \(text)", "Bearer  \(text)", "Bearer \(text.dropLast())",
            "Bearer \(text)x", "Bearer \(text) ", "Bearer\t\(text)",
        ])
    func others(_ credentials: String) throws {
        let token = try #require(AdministrationToken(Array(Self.text.utf8)))
        #expect(!token.isMeant(by: credentials))
    }
}
