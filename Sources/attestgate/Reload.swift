internal import Administration
internal import ArgumentParser

struct Reload: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Have the running gateway load its conf file anew.",
        discussion: """
            Asks through the socket that the conf file names in `administration`, and waits until the new configuration is \
            served. Connections that are open keep the one they came in under.

            The gateway reads the file that it was started with. If FILE is another one, it is not asked to.

            Exit status: 0 served, 1 not, and nothing has changed.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if not the one that the conf file names.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    /// For files to be read and names to be looked up.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "say --socket, or send SIGHUP")
        do {
            let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
            let served = try client.configurationFile()
            guard file.isFile(at: served) else {
                throw Failure(
                    "not reloaded: the gateway at \(socket) was started with \(served), and reads \(file.config) never")
            }
            let done = try client.reload()
            for warning in done.warnings ?? [] { Failure.print("\(warning)\n") }
            print("generation \(done.generation) of \(served) is served")
        } catch let error as AdministrationClientError {
            switch error {
            case .refused(let fault): throw Failure("not reloaded, nothing has changed: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
