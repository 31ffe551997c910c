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

    /// The timeout for reading files and resolving names.
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

    /// The timeout: the maximum for which a gateway waits for the other one and for its own workers.
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
