internal import ArgumentParser

/// The command line: argument parsing, then one call.
@main
struct AttestGate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate",
        abstract: "A policy enforcement point in front of health services.",
        discussion: """
            Terminates mutual TLS, lets through what the routes of its conf file admit, and forwards it.
            """,
        version: "0.1.0",
        subcommands: [Run.self, Check.self, PKI.self])
}
