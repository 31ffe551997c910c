internal import ArgumentParser

/// The command line: argument parsing, then one call.
struct AttestGateDevice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-device",
        abstract: "A software phone for development: enrolment, App Attest assertions and requests.",
        discussion: """
            Apple attests nothing here: a gateway that trusts the simulator's authority trusts anyone who has its \
            key.
            """,
        version: "0.1.0",
        subcommands: [CA.self, Enrol.self, Create.self, Request.self])
}
