internal import ArgumentParser
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a conf file and the files and names in it, without starting the gateway.",
        discussion: """
            Reads the file and the files it includes, opens the certificates, keys, revocation lists and tokens they \
            name, and resolves names. Each error and warning has its line, what was expected and, where possible, \
            what was probably meant. It binds no addresses and connects to no database.

            Exit status: 0 valid (warnings are possible), 1 invalid, 2 usage error.
            """)

    @OptionGroup var file: ConfigurationFile

    @Option(help: "Check for a process with this role: \(Role.choices).")
    var role = Role.both

    func run() throws {
        let blueprint = try file.load(for: role)
        try file.tell(blueprint.unresolvedNames() + [blueprint.descriptorWarning].compactMap(\.self), of: blueprint)
        print("\(file.config): ok (\(blueprint.summary))")
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

/// The conf file that most commands take.
struct ConfigurationFile: ParsableArguments {
    @Option(name: .long, help: ArgumentHelp("The conf file.", valueName: "FILE"), completion: .file())
    var config: String

    /// Links are not followed: where one leads may change, and it is the one that is read.
    var absolutePath: String { URL(fileURLWithPath: config).standardizedFileURL.path }

    /// Whether it is the file at that path now, whatever links lead to either.
    func isFile(at path: String) -> Bool { Self.place(of: config) == Self.place(of: path) }

    private static func place(of path: String) -> String {
        URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }

    /// Reads the file alone, and not what it refers to: a revocation must not fail for a certificate that is gone. What is
    /// doubtful in it is for those to hear who run it.
    func read() throws -> Configuration {
        try explaining { try Configuration.load(path: config, files: .unquestioned).configuration }
    }

    /// Reads the file and everything it refers to that the role needs. Warnings go to standard error.
    ///
    /// - Parameter failed: receives the same fault as standard error.
    func load(for role: Role, failed: (String) -> Void = { _ in }) throws -> Blueprint {
        try explaining(failed) {
            let (configuration, warnings) = try Configuration.load(path: config, role: role)
            for warning in warnings { Failure.print("\(warning)\n") }
            let blueprint: Blueprint
            do throws(StartupError) { blueprint = try Blueprint(configuration) } catch {
                throw Failure(configuration.mentions.diagnostic(error).description)
            }
            tell(blueprint.warnings, of: blueprint)
            return blueprint
        }
    }

    /// On standard error, each with the line that it is about.
    func tell(_ concerns: [StartupWarning], of blueprint: Blueprint) {
        for concern in concerns { Failure.print(blueprint.mentions.diagnostic(concern).description + "\n") }
    }

    /// Where the running gateway is administered. The rest of the file may be wrong: what is, the gateway says, and remembers.
    ///
    /// - Parameter otherwise: what to do where the file names no socket.
    func administrationSocket(otherwise: String) throws -> String {
        if let socket = Configuration.administrationSocket(path: config) { return socket }
        // A file that can be read only up to a fault names no socket either: what is wrong with it comes first. Of one that cannot
        // be read nobody knows.
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
        // Not thrown as they are: "Error: " before the place would hide it from editors that jump to FILE:LINE:COLUMN.
        Failure.print(reason)
        failed(reason)
        throw ExitCode.failure
    }
}

/// Ends the program with status 1 and a message that stands alone.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }

    /// A disk that is full, or a stream that is closed, keeps nothing from going on: `write(_:)` would end the process.
    static func print(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
    }
}
