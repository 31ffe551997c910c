internal import ArgumentParser
internal import Lifecycle

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway in the foreground.",
        discussion: """
            SIGHUP, or `attestgate reload`, loads the conf file anew; if it cannot be served, nothing changes. SIGTERM or \
            SIGINT finishes the requests under way, for at most `timeouts.shutdown`, then ends; a second one \
            ends at once. Exit status: 0 stopped by a signal, 1 could not start.
            """)

    @OptionGroup var file: ConfigurationFile

    @Flag(help: "Start though another process listens on the same addresses: for a restart that refuses nobody.")
    var overlap = false

    func run() throws {
        let blueprint = try file.load()
        do {
            let path = file.config
            try GatewayProcess.run(
                blueprint, source: { () throws(StartupError) in try Blueprint.read(path) }, mayOverlap: overlap)
        } catch {
            throw Failure("\(error)")
        }
    }
}
