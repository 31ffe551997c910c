internal import Administration
internal import ArgumentParser

struct Reload: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Reload the running gateway's configuration.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file, and waits \
            until the new configuration is served. Open connections keep their configuration.

            The gateway reads the file that it was started with. If FILE is another one, the command fails.

            Exit status: 0 served, 1 failure and nothing changed.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    /// For files to be read and names to be looked up.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "use --socket, or send SIGHUP")
        do {
            let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
            let served = try client.configurationFile()
            guard file.isFile(at: served) else {
                throw Failure(
                    "not reloaded: the gateway at \(socket) was started with \(served), not with \(file.config)")
            }
            let done = try client.reload()
            for warning in done.warnings ?? [] { Failure.print("\(warning)\n") }
            print("generation \(done.generation) of \(served) is served")
        } catch let error as AdministrationClientError {
            switch error {
            case .refused(let fault): throw Failure("not reloaded, nothing changed: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
