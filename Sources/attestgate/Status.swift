internal import Administration
internal import ArgumentParser

struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the state of the running gateway.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file, and shows \
            generation, last reload, registry, devices, workers, upstreams and certificates.

            Exit status: 0 ready, 1 not ready or not reachable.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
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
