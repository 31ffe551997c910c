internal import ArgumentParser

/// The command line: argument parsing, then one call.
@main
struct AttestGate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate",
        abstract: "A policy enforcement point in front of health services.",
        discussion: """
            Terminates mutual TLS, lets through what the routes of its conf file admit, and forwards it.

            Exit status of every command: 0 done, 1 not done, and standard error says why, 2 a wrong command line.
            """,
        version: BuildInformation.text,
        subcommands: [
            Run.self, Reload.self, Upgrade.self, ReopenLogs.self, Status.self, Top.self, Check.self, Schema.self,
            PKI.self,
            DeviceCommand.self,
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
