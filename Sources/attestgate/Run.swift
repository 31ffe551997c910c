public import ArgumentParser
internal import Foundation
public import GatewayConfiguration
public import Lifecycle

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway in the foreground.",
        discussion: """
            SIGHUP, or `attestgate reload`, reloads the conf file; if it is invalid, nothing changes. SIGTERM or \
            SIGINT stops the gateway after the requests in flight, at most `timeouts.shutdown` later; a second \
            signal stops it at once, or ends `timeouts.shutdown_delay`. SIGUSR2, or `attestgate upgrade`, starts the installed program, which takes \
            over. Listening sockets of a service manager (LISTEN_FDS) are used for the listeners with their \
            addresses. Exit status: 0 stopped by a signal, 1 could not start, 2 usage error.

            Roles: `gateway` serves requests and never opens a file of the section `enrolment`, such as the CA's \
            key; `enrolment` enrols devices, serves no requests and never opens a file of `listeners`; `federation` \
            serves the section `federation` and opens files of neither; `both` does all that the conf file has \
            sections for. All roles have the registry and the administration.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "The role of the process: \(Role.choices).")
    var role = Role.both

    @Option(
        help: """
            Whether to drop access to files that the conf file does not name (Landlock): \(Sandbox.choices). A \
            reload or an upgrade then finds new files only in the same directories.
            """)
    var sandbox = Sandbox.off

    @Flag(
        help: """
            Start although the registry's revocation journal is missing: a new one is created from the registry, and \
            revocations that only the old one held are lost.
            """)
    var acceptLostRevocations = false

    @Flag(
        help: """
            Start although the registry is missing: a new one without devices is created, and every phone must enrol \
            again.
            """)
    var acceptLostRegistry = false

    @Flag(
        help: """
            Start although the registry's secret is missing or has changed: services see every device as a new one.
            """)
    var acceptNewSecret = false

    /// The path by which this program was started. An upgrade starts the program that is then there.
    private static var program: String {
        guard let name = CommandLine.arguments.first, name.contains("/") else {
            return (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "/proc/self/exe"
        }
        return URL(fileURLWithPath: name).standardizedFileURL.path
    }

    func run() throws {
        let inheritance = try Inheritance.take()
        let blueprint = try file.load(for: role) { inheritance.tellFailure($0) }
        do {
            let (path, role) = (file.config, role)
            try GatewayProcess.run(
                blueprint, file: file.absolutePath,
                source: { () throws(StartupError) in try Blueprint.read(path, for: role) },
                StartPermissions(
                    acceptsLostRevocations: acceptLostRevocations, acceptsLostRegistry: acceptLostRegistry,
                    acceptsNewSecret: acceptNewSecret),
                // The options apply to this start only.
                inheritance,
                // The conf file has the same name and directory as before. Relative paths depend on the name, and
                // inherited sockets and locks are found by their paths.
                successor: [
                    Self.program, "run", "--config", file.config, "--role", role.rawValue, "--sandbox",
                    sandbox.rawValue,
                ], sandbox: sandbox)
        } catch let error as StartupError where error.subject != nil {
            // Errors that are thrown are printed after "Error: ", so editors would not find the position.
            Failure.print(blueprint.mentions.diagnostic(error).description)
            throw ExitCode.failure
        }
    }
}

extension Role: ExpressibleByArgument {}
extension Sandbox: ExpressibleByArgument {}

extension CaseIterable where Self: RawRepresentable, RawValue == String {
    /// All values for help texts: `a, b, c`.
    static var choices: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
