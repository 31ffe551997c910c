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

    @OptionGroup var gateway: GatewayOptions

    /// The timeout for reading files and resolving names.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try gateway.socket(otherwise: "use --socket, or send SIGHUP")
        let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
        let file = gateway.file
        try GatewayOptions.explaining(socket, refused: "not reloaded, nothing changed") {
            let served = try client.configurationFile()
            guard file.isFile(at: served) else {
                throw Failure(
                    "not reloaded: the gateway at \(socket) was started with \(served), not with \(file.config): "
                        + "name that file with --config, or restart the gateway with this one")
            }
            let done = try client.reload()
            for warning in done.warnings ?? [] { Failure.print("\(warning)\n") }
            print("generation \(done.generation) of \(served) is served")
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

    @OptionGroup var gateway: GatewayOptions

    func run() throws {
        let socket = try gateway.socket(otherwise: "use --socket, or send SIGUSR1")
        let isFile = try GatewayOptions.explaining(socket, refused: "not reopened, the old file is still in use") {
            try AdministrationClient(socketPath: socket).reopenLogs()
        }
        print(isFile ? "the access log is reopened" : "there is no access log file to reopen")
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

    @OptionGroup var gateway: GatewayOptions

    /// The timeout: the maximum for which a gateway waits for the other one and for its own workers.
    private static let patienceSeconds: Int64 = 120

    func run() throws {
        let socket = try gateway.socket(otherwise: "use --socket, or send SIGUSR2")
        let client = AdministrationClient(socketPath: socket, patience: .seconds(Self.patienceSeconds))
        try GatewayOptions.explaining(socket, refused: "not upgraded") {
            let before = try client.status().process
            let process = try client.upgrade()
            print("process \(process) serves, process \(before) finishes its open requests")
        }
    }
}

/// The options that name a running gateway.
struct GatewayOptions: ParsableArguments {
    @OptionGroup var file: ConfigurationFile

    @Option(
        name: .customLong("socket"),
        help: ArgumentHelp("The gateway's socket, if it is not the conf file's.", valueName: "PATH"),
        completion: .file())
    var path: String?

    /// Returns the path of the administration socket.
    ///
    /// - Parameter otherwise: The advice if there is none.
    func socket(otherwise: String) throws -> String { try path ?? file.administrationSocket(otherwise: otherwise) }

    /// Contacts the gateway at the socket and explains a failure.
    ///
    /// - Parameter refused: The beginning of the message if the gateway refuses. Nil if it refuses nothing.
    static func explaining<Result>(
        _ socket: String, refused: String? = nil, _ body: () throws -> Result
    ) throws -> Result {
        do {
            return try body()
        } catch let error as AdministrationClientError {
            if let refused, case .refused(let fault) = error { throw Failure("\(refused): \(fault.description)") }
            throw DeviceAdministrationError.gateway(socket: socket, error)
        }
    }
}
