internal import Administration
internal import ArgumentParser

struct Upgrade: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Replace the running gateway by the installed program.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file. The gateway \
            starts the program at its own path, which takes over the listening sockets and the registry without \
            refusing a request. Same as SIGUSR2, but with a result.

            Exit status: 0 the new process serves, 1 failure and the old process still serves.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    /// As long as a gateway waits for the other one at most, and for its own workers.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "use --socket, or send SIGUSR2")
        do throws(AdministrationClientError) {
            let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
            let before = try client.status().process
            let process = try client.upgrade()
            print("process \(process) serves, process \(before) finishes its open requests")
        } catch {
            switch error {
            case .refused(let fault): throw Failure("not upgraded: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
