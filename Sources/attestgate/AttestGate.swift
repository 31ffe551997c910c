internal import ArgumentParser
internal import Lifecycle

/// The command line: argument parsing, then one call.
@main
struct AttestGate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate",
        abstract: "A policy enforcement point in front of health services.",
        discussion: """
            Terminates mutual TLS, lets through what the routes of its conf file admit, and forwards it.
            """,
        version: GatewayVersion.text,
        subcommands: [
            Run.self, Reload.self, Status.self, Check.self, PKI.self, DeviceCommand.self,
            RegistryAdministration.self, Verify.self,
        ])

    /// As usual, but for the exit status of a wrong command line: 2, where the library's own would be 64.
    nonisolated static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            Failure.print(fullMessage(for: error))
            exit(withError: ExitCode(2))
        }
    }
}
