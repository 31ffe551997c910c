internal import Administration
internal import ArgumentParser

struct Upgrade: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Have the program that is installed now take over from the running gateway.",
        discussion: """
            Asks through the socket that the conf file names in `administration`. The gateway starts the program at the path \
            that it was started by; that takes over its listening sockets and the registry, and no request is refused for it. The \
            same as SIGUSR2, but with an answer.

            Exit status: 0 the new process serves, 1 it does not, and the one of before serves on.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if not the one that the conf file names.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    /// As long as a gateway waits for the other one at most, and for its own workers.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "say --socket, or send SIGUSR2")
        do throws(AdministrationClientError) {
            let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
            let before = try client.status().process
            let process = try client.upgrade()
            print("process \(process) serves, process \(before) finishes what is open")
        } catch {
            switch error {
            case .refused(let fault): throw Failure("not upgraded: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
