import Testing

@testable import GatewayConfiguration

@Suite("Broken conf files")
struct BrokenFileTests {
    @Test(
        "one mistake gives one diagnostic at its place",
        arguments: [
            BrokenFile.structure, BrokenFile.yaml, BrokenFile.values, BrokenFile.routes, BrokenFile.upstreams,
            BrokenFile.relations, BrokenFile.apps, BrokenFile.registry, BrokenFile.levels,
            BrokenFile.clients, BrokenFile.hosts, BrokenFile.proxyProtocol, BrokenFile.attestations,
            BrokenFile.enrolment, BrokenFile.admission, BrokenFile.statusList, BrokenFile.policies,
            BrokenFile.deviceTokens, BrokenFile.clientAttestations, BrokenFile.federation,
        ].flatMap(\.self))
    func refused(file: BrokenFile) throws {
        let error = try #require(throws: ConfigurationError.self) { try Conf.read(file.text) }
        try #require(error.diagnostics.count == 1, "\(error)")
        let diagnostic = error.diagnostics[0]
        #expect(diagnostic.severity == .error)
        #expect(diagnostic.line == file.line, "\(diagnostic)")
        #expect(diagnostic.column == file.column, "\(diagnostic)")
        #expect(diagnostic.message.contains(file.message), "\(diagnostic)")
        #expect(diagnostic.suggestion == file.suggestion, "\(diagnostic)")
    }

    @Test("a device token is refused where a client may present no certificate")
    func tokenOfNobody() throws {
        let text = Conf.valid.replacing(
            "require: certificate", with: "require: nothing\n    device_token: required")
        let error = try #require(throws: ConfigurationError.self) { try Conf.read(text) }
        let messages = error.diagnostics.map(\.message)
        #expect(messages.contains { $0.contains("`device_token` has no certificate to be for") }, "\(messages)")
    }
}

/// A conf file with one mistake at a marked place.
struct BrokenFile: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The text without the mark.
    let text: String
    let line: Int
    let column: Int
    /// A part of the expected message.
    let message: String
    let suggestion: String?

    private static let mark = "▶"

    /// Creates a file from the valid conf file by replacing one piece.
    init(
        _ description: String, _ piece: String, _ other: String, _ message: String, suggestion: String? = nil
    ) {
        self.init(description, Conf.valid(replacing: piece, by: other), message, suggestion: suggestion)
    }

    /// Creates a file from the file that requires request proofs by replacing one piece.
    init(
        attested description: String, _ piece: String, _ other: String, _ message: String, suggestion: String? = nil
    ) {
        self.init(description, Conf.attested(replacing: piece, by: other), message, suggestion: suggestion)
    }

    /// Creates a file from the file that enrols by replacing one piece.
    init(
        enrolling description: String, _ piece: String, _ other: String, _ message: String, suggestion: String? = nil
    ) {
        self.init(description, Conf.enrolling(replacing: piece, by: other), message, suggestion: suggestion)
    }

    init(_ description: String, _ marked: String, _ message: String, suggestion: String? = nil) {
        let parts = marked.split(separator: Self.mark, omittingEmptySubsequences: false)
        precondition(parts.count == 2, "one place is marked")
        let lines = parts[0].split(separator: "\n", omittingEmptySubsequences: false)
        testDescription = description
        text = parts.joined()
        line = lines.count
        column = lines[lines.count - 1].unicodeScalars.count + 1
        self.message = message
        self.suggestion = suggestion
    }
}
