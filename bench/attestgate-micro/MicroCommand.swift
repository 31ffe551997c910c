internal import ArgumentParser

/// The parts of a request's way, each by itself.
struct MicroCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-micro", abstract: "Measures parts of what the gateway does, without a network.",
        subcommands: [TimeCommand.self, CountCommand.self], defaultSubcommand: TimeCommand.self)
}
