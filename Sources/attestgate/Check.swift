internal import ArgumentParser
internal import GatewayConfiguration
internal import Lifecycle

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a conf file, and the certificates and names in it, without starting anything.",
        discussion: """
            Reads the file and those it includes, opens the certificates, keys, revocation lists and tokens they name, and looks up \
            names. Each error and warning says where it stands, what was expected, and what was probably meant. Addresses are not \
            bound, and a database is not asked.

            Exit status: 0 it can be run, perhaps with warnings, 1 it cannot, 2 wrong command line.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "For a process that does this part of the work: \(Role.choices).")
    var role = Role.both

    func run() throws {
        let blueprint = try file.load(for: role)
        try file.tell(blueprint.unresolvedNames(), of: blueprint)
        print("\(file.config): ok (\(blueprint.summary))")
    }
}
