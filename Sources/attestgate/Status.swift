internal import Administration
internal import ArgumentParser

struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how the running gateway fares.",
        discussion: """
            Asks through the socket that the conf file names in `administration`: generation, last reload, registry, \
            devices, workers, upstreams, certificates.

            Exit status: 0 ready, 1 not ready, or it cannot be asked.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if not the one that the conf file names.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "say --socket")
        let status: StatusDocument
        do throws(AdministrationClientError) {
            status = try AdministrationClient(socketPath: socket).status()
        } catch {
            throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
        }
        print(json ? String(decoding: JSONText.encode(status), as: UTF8.self) : StatusListing.text(of: status))
        if !status.obstacles.isEmpty { throw ExitCode.failure }
    }
}
