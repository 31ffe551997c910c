internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration

struct Schema: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the conf file's JSON Schema, by which editors complete and check it.",
        discussion: """
            Written to a file, it is named in the first line of the conf file:

                # yaml-language-server: $schema=/etc/attestgate/attestgate.schema.json

            It says what settings there are, and of which form; `attestgate check` says far more. Exit status: 0.
            """)

    @Flag(help: "For a file that another one includes, and that need not have what every conf file has.")
    var part = false

    func run() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let text = try encoder.encode(ConfigurationSchema.schema(ofPart: part))
        try FileHandle.standardOutput.write(contentsOf: text + Data("\n".utf8))
    }
}
