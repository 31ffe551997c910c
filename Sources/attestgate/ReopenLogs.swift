internal import Administration
internal import ArgumentParser

struct ReopenLogs: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reopen-logs",
        abstract: "Have the running gateway open its log file anew, after logrotate has moved it away.",
        discussion: """
            Asks through the socket that the conf file names in `administration`. The same as SIGUSR1, but with an answer.

            Exit status: 0 opened, or no file is written; 1 not, and the old file is still written to.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(
        help: ArgumentHelp("The gateway's socket, if not the one that the conf file names.", valueName: "PATH"),
        completion: .file())
    var socket: String?

    func run() throws {
        let socket = try socket ?? file.administrationSocket(otherwise: "say --socket, or send SIGUSR1")
        do throws(AdministrationClientError) {
            let isFile = try AdministrationClient(socketPath: socket).reopenLogs()
            print(isFile ? "the access log is open anew" : "access is not logged to a file, nothing to open")
        } catch {
            switch error {
            case .refused(let fault): throw Failure("not opened anew, the old file is kept: \(fault.description)")
            default: throw Failure("\(DeviceAdministrationError.gateway(socket: socket, error))")
            }
        }
    }
}
