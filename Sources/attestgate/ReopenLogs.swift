internal import Administration
internal import ArgumentParser

struct ReopenLogs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reopen-logs",
        abstract: "Reopen the running gateway's log file after logrotate has moved it.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file. Same as \
            SIGUSR1, but with a result.

            Exit status: 0 reopened, or there is no log file; 1 failure, and the old file is still in use.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "use --socket, or send SIGUSR1")
        do throws(AdministrationClientError) {
            let isFile = try AdministrationClient(socketPath: socket).reopenLogs()
            print(isFile ? "the access log is reopened" : "there is no access log file to reopen")
        } catch {
            switch error {
            case .refused(let fault): throw Failure("not reopened, the old file is still in use: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
