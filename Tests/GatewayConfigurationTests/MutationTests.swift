import Chance
import Testing

@testable import GatewayConfiguration

@Suite("Random conf files")
struct MutationTests {
    /// Pieces with a meaning in YAML or in the settings.
    private static let pieces = [
        "\n", "  ", "\t", ":", ": ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "!", "!!str ", "!<x> ", "|", ">", "'",
        "\"",
        "\\", "#", " #", "%", "%YAML 1.2\n", "---\n", "...\n", "? ", "<<: ", "@", "`", "~", "\r", "\u{85}", "\u{2028}",
        "\u{FEFF}", "\u{E000}", "ä", "\u{308}", "\u{1F600}", "\u{0}", "0", "path: /\n", "routes:\n", "records",
        "apps:\n", "apps: []\n", "registry:\n", "request-proof", "certificate", "window ",
        "simulator", "ABCDE12345.org.example.app", "enrolment:\n", "token:\n", "open", "https://", "receipt: required",
    ]

    @Test(
        "a randomly changed conf file never stops the process, and a refusal gives a reason",
        arguments: [Conf.valid, Conf.attested, Conf.enrolling], 0..<8)
    func mutations(file: String, number: UInt64) throws {
        let seed = RunSeed.tell() &+ number
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            var text = file
            for _ in 0..<Int.random(in: 1...6, using: &random) { Self.mutate(&text, &random) }
            do throws(ConfigurationError) {
                let (configuration, _) = try Conf.read(text)
                #expect(!configuration.routes.isEmpty && !configuration.listeners.isEmpty, "seed \(seed)")
                if configuration.enrolment != nil {
                    #expect(configuration.registry != nil && !configuration.apps.isEmpty)
                }
                for route in configuration.routes where route.require != .certificate {
                    #expect(configuration.registry != nil && !route.apps.isEmpty)
                    #expect(Set(route.apps).isSubset(of: configuration.apps.map(\.id)))
                }
            } catch {
                #expect(error.diagnostics.contains { $0.severity == .error })
                #expect(!error.description.isEmpty)
            }
        }
    }

    private static func mutate(_ text: inout String, _ random: inout SeededGenerator) {
        var scalars = Array(text.unicodeScalars)
        let start = Int.random(in: 0...scalars.count, using: &random)
        let end = min(scalars.count, start + Int.random(in: 0...4, using: &random))
        let piece = pieces.randomElement(using: &random) ?? ""
        scalars.replaceSubrange(start..<end, with: piece.unicodeScalars)
        text = String(String.UnicodeScalarView(scalars))
    }
}
