internal import ArgumentParser
internal import GatewayConfiguration
internal import Lifecycle

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a conf file, and the certificates and names in it, without starting anything.",
        discussion: "Exit status: 0 it can be run, 1 it cannot; each error says where it stands and what was expected.")

    @OptionGroup var file: ConfigurationFile

    @Option(help: "For a process that does this part of the work: \(Role.choices).")
    var role = Role.both

    func run() throws {
        let blueprint = try file.load(for: role)
        for warning in try blueprint.unresolvedNames() { Failure.print("\(file.config): warning: \(warning)") }
        print("\(file.config): ok (\(blueprint.summary))")
    }
}
