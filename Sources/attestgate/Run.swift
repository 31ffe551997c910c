internal import ArgumentParser
internal import GatewayConfiguration
internal import Lifecycle

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway in the foreground.",
        discussion: """
            SIGHUP, or `attestgate reload`, loads the conf file anew; if it cannot be served, nothing changes. SIGTERM or \
            SIGINT finishes the requests under way, for at most `timeouts.shutdown`, then ends; a second one \
            ends at once. Exit status: 0 stopped by a signal, 1 could not start.

            Roles: `gateway` serves requests and never opens a file that the section `enrolment` names, the key of the \
            CA among them; `enrolment` enrols devices, and serves neither requests nor opens the files of listeners; \
            `both` does both where the conf file has the section. The registry and the administration are there in all.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "Which part of the work to do: \(Role.choices).")
    var role = Role.both

    @Flag(help: "Start though another process listens on the same addresses: for a restart that refuses nobody.")
    var overlap = false

    func run() throws {
        let blueprint = try file.load(for: role)
        do {
            let (path, role) = (file.config, role)
            try GatewayProcess.run(
                blueprint, file: file.absolutePath,
                source: { () throws(StartupError) in try Blueprint.read(path, for: role) },
                mayOverlap: overlap)
        } catch {
            throw Failure("\(error)")
        }
    }
}
