internal import ArgumentParser

/// The command line: argument parsing, then one call.
struct AttestGateDevice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-device",
        abstract: "A software phone for development: its enrolment, its App Attest assertions, its requests.",
        discussion: """
            Nothing here is attested by Apple: a gateway that trusts the simulator's authority trusts whoever runs it.
            """,
        version: "0.1.0",
        subcommands: [CA.self, Enrol.self, Create.self, Request.self])
}
