import Foundation
import Hummingbird
import Logging
import NIOPosix

/// `verifier --socket PATH --database FILE --secret FILE --app ID [--register FILE]`, as the one in Python.
@main
struct Main {
    static func main() async throws {
        let options = try Options(CommandLine.arguments.dropFirst())
        let database = try Database(options.database)
        if let file = options.register {
            try database.register(String(contentsOfFile: file, encoding: .utf8).split(separator: "\n"))
        }
        let found = try database.devices()
        let highest = Dictionary(uniqueKeysWithValues: found.map { ($0.device.certificateKey, $0.counter) })
        let gate = Gate(
            devices: Devices(found.map(\.device)), counters: Counters(database, highest),
            challenges: Challenges(secret: try Data(contentsOf: URL(filePath: options.secret))), app: options.app)
        var logger = Logger(label: "verifier")
        logger.logLevel = .error
        // One thread for connections, as nginx has one worker.
        let application = Application(
            router: gate.router,
            configuration: ApplicationConfiguration(address: .unixDomainSocket(path: options.socket)),
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup(numberOfThreads: 1)), logger: logger)
        try await application.runService()
    }
}

private struct Options {
    let socket: String
    let database: String
    let secret: String
    let app: String
    let register: String?

    struct Usage: Error {}

    init(_ arguments: ArraySlice<String>) throws {
        var values: [String: String] = [:]
        var rest = arguments
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw Usage() }
            values[name] = value
        }
        guard let socket = values["--socket"], let database = values["--database"], let secret = values["--secret"],
            let app = values["--app"]
        else { throw Usage() }
        self.socket = socket
        self.database = database
        self.secret = secret
        self.app = app
        register = values["--register"]
    }
}
