internal import Administration
internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Registry
internal import RegistryPostgreSQL
internal import RegistrySQLite
internal import RevocationJournal
internal import Synchronization

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a conf file and the files and names in it, without starting the gateway.",
        discussion: """
            Reads the file and the files it includes, opens the certificates, keys, revocation lists and tokens they \
            name, and resolves names. Each error and warning has its line, what was expected and, where possible, \
            what was probably meant. It binds no addresses and connects to no database. A note says which default \
            that the file relies on was another one in an earlier version.

            With a client certificate, it prints for each listener and host whether a handshake would accept it, or \
            the denial and the reason. The registry is not asked, so revoked devices do not show.

            Exit status: 0 valid (warnings are possible), 1 invalid, 2 usage error. With a client certificate, 1 \
            also if no listener or host accepts it, 2 also if its file cannot be read.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "Check for a process with this role: \(Role.choices).")
    var role = Role.both

    @Option(
        help: ArgumentHelp(
            "Also check this client certificate: a PEM file, with the certificates that its client sends with it.",
            valueName: "FILE"), completion: .file())
    var clientCertificate: String?

    func validate() throws {
        guard clientCertificate == nil || role.servesRequests else {
            throw ValidationError("a process with the role \(role.rawValue) has no listeners for a client certificate")
        }
    }

    func run() throws {
        let blueprint = try file.load(for: role)
        try file.printWarnings(
            blueprint.unresolvedNames() + [blueprint.descriptorWarning].compactMap(\.self), of: blueprint)
        print("\(file.config): ok (\(blueprint.summary))")
        for note in blueprint.changedDefaults { print("note: \(note)") }
        guard let clientCertificate else { return }
        let trial: ClientCertificateTrial
        do throws(StartupError) { trial = try ClientCertificateTrial(ofFile: clientCertificate, at: blueprint) } catch {
            Failure.print(error.description)
            throw ExitCode(2)
        }
        for verdict in trial.verdicts { print(verdict.text) }
        if !trial.isAccepted { throw ExitCode.failure }
    }
}

struct SchemaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Print the JSON Schema of the conf file, for completion and checks in editors.",
        discussion: """
            Write it to a file, and name that file in the first line of the conf file:

                # yaml-language-server: $schema=/etc/attestgate/attestgate.schema.json

            It describes the settings and their form; `attestgate check` checks more.
            Exit status: 0.
            """)

    @Flag(help: "For an included file, which does not need the required sections.")
    var part = false

    func run() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let text = try encoder.encode(ConfigurationSchema.schema(ofPart: part))
        try FileHandle.standardOutput.write(contentsOf: text + Data("\n".utf8))
    }
}

/// The option for the conf file.
struct ConfigurationFile: ParsableArguments {
    @Option(name: .long, help: ArgumentHelp("The conf file.", valueName: "FILE"), completion: .file())
    var config = PackagedPlaces.configuration

    /// The absolute path. Links are not resolved, because their target may change before the file is read.
    var absolutePath: String { URL(fileURLWithPath: config).standardizedFileURL.path }

    /// Returns whether both paths lead to the same file now, through any links.
    func isFile(at path: String) -> Bool { Self.place(of: config) == Self.place(of: path) }

    private static func place(of path: String) -> String {
        URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }

    /// Reads the file only, not the files that it names. A revocation must not fail because of a missing certificate.
    /// Warnings are not printed, because they are for those who run the gateway.
    func read() throws -> Configuration {
        try explaining { try Configuration.load(path: config, files: .unquestioned).configuration }
    }

    /// Reads the file and all files that the role needs. Prints warnings to standard error.
    ///
    /// - Parameter failed: Receives the fault that is also printed to standard error.
    func load(for role: Role, failed: (String) -> Void = { _ in }) throws -> Blueprint {
        try explaining(failed) {
            let (configuration, warnings) = try Configuration.load(path: config, role: role)
            for warning in warnings { Failure.print("\(warning)\n") }
            let blueprint: Blueprint
            do throws(StartupError) { blueprint = try Blueprint(configuration) } catch {
                throw Failure(configuration.mentions.diagnostic(error).description)
            }
            printWarnings(blueprint.warnings, of: blueprint)
            return blueprint
        }
    }

    /// Prints warnings to standard error, each with its line.
    func printWarnings(_ warnings: [StartupWarning], of blueprint: Blueprint) {
        for warning in warnings { Failure.print(blueprint.mentions.diagnostic(warning).description + "\n") }
    }

    /// Returns the administration socket of the running gateway. The rest of the file may be invalid, because the
    /// gateway itself reports and remembers that.
    ///
    /// - Parameter otherwise: The advice if the file names no socket.
    func administrationSocket(otherwise: String) throws -> String {
        if let socket = Configuration.administrationSocket(path: config) { return socket }
        // If the file can be read only up to a fault, that fault is reported. An unreadable file is reported as such.
        do throws(ConfigurationError) {
            _ = try Configuration.load(path: config, files: .unquestioned)
        } catch {
            Failure.print(error.description)
            guard FileManager.default.isReadableFile(atPath: config) else { throw ExitCode.failure }
            throw Failure(
                """
                \(config): no administration socket can be read beside the errors above, so the gateway was not \
                contacted and is unchanged. Repair the errors first, or \(otherwise)
                """)
        }
        throw Failure("\(config): there is no socket in `administration`: \(otherwise)")
    }

    private func explaining<Result>(
        _ failed: (String) -> Void = { _ in }, _ body: () throws -> Result
    ) throws -> Result {
        let reason: String
        do {
            return try body()
        } catch let error as ConfigurationError {
            reason = error.description
        } catch let error as Failure {
            reason = error.description
        }
        // Errors that are thrown are printed after "Error: ", so editors that jump to FILE:LINE:COLUMN would not find
        // the position.
        Failure.print(reason)
        failed(reason)
        throw ExitCode.failure
    }

    /// Returns access to the registry.
    ///
    /// - Parameter kind: The effect of the command on the registry as a whole.
    func registryAdministration(_ kind: RegistryUse = .asItIs) throws -> DeviceAdministration {
        let configuration = try read()
        let registry = try registry(of: configuration)
        var database: PostgreSQLSettings?
        if case .postgresql(let settings) = registry.store { database = PostgreSQLSettings(settings) }
        return DeviceAdministration(
            registryPath: registry.path,
            witness: WitnessSettings(
                path: registry.revocationsPath, acceptsLoss: kind == .restoring(hasJournal: false),
                acceptsLostStore: kind != .asItIs
            ) { [notices = UniqueLines()] in
                switch (kind, $0) {
                // An import creates the registry, and reports a missing journal itself.
                case (.restoring, .storeMade), (.restoring(hasJournal: false), .wentBack),
                    (.restoring(hasJournal: false), .lossAccepted):
                    break
                default: notices.print("registry: \($0)")
                }
            },
            socketPath: configuration.administration?.socketPath, database: database)
    }

    /// Prepares the secret before devices are added, so that a new registry is like one that a gateway created.
    func prepareSecret() throws {
        let registry = try registry(of: read())
        guard let path = registry.path, access(path, F_OK) != 0, access(registry.revocationsPath, F_OK) != 0 else {
            return
        }
        guard access(registry.secretPath, F_OK) != 0 else {
            throw Failure("\(StoreOpenError.storeLost(path: path, witness: registry.secretPath))")
        }
        try warnOfForeignDirectory()
        // The registry first: a secret without a registry shows that one was lost.
        _ = try RegistryStore(
            path: path, creating: true, witness: WitnessSettings(path: registry.revocationsPath))
        try RegistrySecrets.make(path: registry.secretPath)
    }

    /// Warns if the registry's file will be created in a directory of another user, who could not open it.
    func warnOfForeignDirectory() throws {
        guard let path = try registry(of: read()).path, access(path, F_OK) != 0 else { return }
        let directory = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        var status = stat()
        guard stat(directory, &status) == 0, status.st_uid != geteuid() else { return }
        Failure.print(
            """
            warning: \(directory) belongs to uid \(status.st_uid), but this process has uid \(geteuid()): a gateway of \
            the directory's owner cannot open the files that are created now; run commands as the gateway's user
            """)
    }

    /// Returns the path of the revocation journal.
    func revocationsPath() throws -> String { try registry(of: read()).revocationsPath }

    private func registry(of configuration: Configuration) throws -> RegistryConfiguration {
        guard let registry = configuration.registry else {
            throw Failure("\(config): there is no section `registry`, so there are no devices")
        }
        return registry
    }
}

/// An error that ends the program with status 1 and a message without a prefix.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    /// Prints a text. A full disk or a closed stream is ignored; `write(_:)` would end the process.
    static func print(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
    }
}

/// Lines for standard error without repetitions. An import opens its registry twice and finds the same both times.
private final class UniqueLines: Sendable {
    private let printed = Mutex<Set<String>>([])

    func print(_ line: String) {
        guard printed.withLock({ $0.insert(line).inserted }) else { return }
        Failure.print(line)
    }
}

/// The effect of a command on the registry as a whole.
enum RegistryUse: Equatable {
    case asItIs
    /// The command may create the registry, and fills it from an export.
    case restoring(hasJournal: Bool)
}
