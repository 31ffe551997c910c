internal import ArgumentParser
internal import CommandUsage
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Lifecycle
internal import RegistryPostgreSQL
internal import RegistrySQLite

/// The command line: argument parsing, then one call.
@main
struct AttestGate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate",
        abstract: "A policy enforcement point in front of health services.",
        discussion: """
            Terminates mutual TLS, checks each request against the routes of its conf file, and forwards what they \
            allow.

            Exit status of every command: 0 success, 1 failure (standard error says why), 2 usage error.
            """,
        version: BuildInformation.text,
        subcommands: [
            Run.self, Reload.self, Upgrade.self, ReopenLogs.self, Status.self, Top.self, Check.self, SchemaCommand.self,
            PKI.self, DeviceCommand.self, ServiceCommand.self, PolicyCommand.self, RegistryAdministration.self,
            Verify.self,
        ])

    /// Runs the command. The exit status of a wrong command line is 2 instead of the library's 64.
    nonisolated static func main() {
        do {
            var command = try parseAsRoot()
            try command.run()
        } catch {
            guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
            Failure.print(usageMessage(for: error, Array(CommandLine.arguments.dropFirst())))
            exit(withError: ExitCode(2))
        }
    }
}

/// The text of `--version`: the program, its source and its libraries.
private enum BuildInformation {
    static var text: String {
        let rows = [
            ["commit", SourceRevision.text ?? "unknown: built from a working tree"],
            ["Swift", SourceRevision.swift ?? "unknown: \(language) or later"],
            ["OpenSSL", OpenSSLVersion.text],
            ["libevent", LibeventVersion.text],
            ["nghttp2", NGHTTP2Version.text],
            ["SQLite", RegistryStore.sqliteVersion],
            ["libpq", PostgreSQLSettings.libpqVersion],
        ]
        return (["attestgate \(GatewayVersion.text)"] + Columns.aligned(rows)).joined(separator: "\n")
    }

    private static var language: String {
        #if compiler(>=6.4)
            "6.4"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }
}
