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
            BrokenFile.enrolment, BrokenFile.admission,
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
}
