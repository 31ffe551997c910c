internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration

struct SchemaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Print the JSON Schema of the conf file, for completion and checks in editors.",
        discussion: """
            Write it to a file, and name that file in the first line of the conf file:

                # yaml-language-server: $schema=/etc/attestgate/attestgate.schema.json

            It describes the settings and their form; `attestgate check` checks more.
            Exit status: 0.
            """)

    @Flag(help: "For an included file, which does not need the required sections.")
    var part = false

    func run() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let text = try encoder.encode(ConfigurationSchema.schema(ofPart: part))
        try FileHandle.standardOutput.write(contentsOf: text + Data("\n".utf8))
    }
}
