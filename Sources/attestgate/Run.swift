internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway in the foreground.",
        discussion: """
            SIGHUP, or `attestgate reload`, loads the conf file anew; if it cannot be served, nothing changes. SIGTERM or \
            SIGINT finishes the requests under way, for at most `timeouts.shutdown`, then ends; a second one \
            ends at once. SIGUSR2, or `attestgate upgrade`, has the program that is installed now take over. Listening sockets of a \
            service manager (LISTEN_FDS) are taken for the listeners at their addresses. Exit status: 0 stopped by a signal, 1 could not start, 2 wrong command line.

            Roles: `gateway` serves requests and never opens a file that the section `enrolment` names, the key of the \
            CA among them; `enrolment` enrols devices, and serves neither requests nor opens the files of listeners; \
            `both` does both where the conf file has the section. The registry and the administration are there in all.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "Which part of the work to do: \(Role.choices).")
    var role = Role.both

    @Option(
        help: """
            Whether to give up access to files that the conf file does not lead to (Landlock): \(Sandbox.choices). A reload or an \
            upgrade then finds new files in the same directories only.
            """)
    var sandbox = Sandbox.off

    @Flag(help: "Start though another process listens on the same addresses: for a restart that refuses nobody.")
    var overlap = false

    @Flag(
        help: """
            Start though the registry's revocation journal is gone: a new one is made from the registry, and revocations that \
            only the old one knew are forgotten.
            """)
    var acceptLostRevocations = false

    @Flag(
        help: """
            Start though the registry is gone: a new one is made, without devices, and every phone has to enrol again.
            """)
    var acceptLostRegistry = false

    @Flag(
        help: """
            Start though the registry's secret is gone, or another one than before: services take every device for a new one.
            """)
    var acceptNewSecret = false

    /// The path that this program was started by: what lies there when an upgrade is asked for is started then.
    private static var program: String {
        guard let name = CommandLine.arguments.first, name.contains("/") else {
            return (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "/proc/self/exe"
        }
        return URL(fileURLWithPath: name).standardizedFileURL.path
    }

    func run() throws {
        let inheritance: Inheritance
        do { inheritance = try Inheritance.take() } catch { throw Failure("\(error)") }
        let blueprint = try file.load(for: role) { inheritance.tellFailure($0) }
        do {
            let (path, role) = (file.config, role)
            try GatewayProcess.run(
                blueprint, file: file.absolutePath,
                source: { () throws(StartupError) in try Blueprint.read(path, for: role) },
                StartPermissions(
                    mayOverlap: overlap || inheritance.takesOver, acceptsLostRevocations: acceptLostRevocations,
                    acceptsLostRegistry: acceptLostRegistry, acceptsNewSecret: acceptNewSecret),
                // What was accepted for this start is not for the next.
                inheritance,
                // The conf file as it was named, in the same directory: relative paths are joined to that name, and sockets and
                // locks that are handed over are found by theirs.
                successor: [
                    Self.program, "run", "--config", file.config, "--role", role.rawValue, "--sandbox",
                    sandbox.rawValue,
                ], sandbox: sandbox)
        } catch let error as StartupError {
            guard error.subject != nil else { throw Failure("\(error)") }
            // Not thrown: "Error: " before the place would hide it from editors that jump there.
            Failure.print(blueprint.mentions.diagnostic(error).description)
            throw ExitCode.failure
        } catch {
            throw Failure("\(error)")
        }
    }
}
