internal import ArgumentParser
internal import GatewayConfiguration
internal import Lifecycle

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a conf file and the files and names in it, without starting the gateway.",
        discussion: """
            Reads the file and the files it includes, opens the certificates, keys, revocation lists and tokens they \
            name, and resolves names. Each error and warning has its line, what was expected and, where possible, \
            what was probably meant. It binds no addresses and connects to no database.

            Exit status: 0 valid (warnings are possible), 1 invalid, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "Check for a process with this role: \(Role.choices).")
    var role = Role.both

    func run() throws {
        let blueprint = try file.load(for: role)
        try file.tell(blueprint.unresolvedNames() + [blueprint.descriptorWarning].compactMap(\.self), of: blueprint)
        print("\(file.config): ok (\(blueprint.summary))")
    }
}
