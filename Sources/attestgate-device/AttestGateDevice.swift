internal import ArgumentParser
internal import CommandUsage
internal import Cryptography
internal import DeviceSimulator
internal import Foundation

/// The command line: argument parsing, then one call.
struct AttestGateDevice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-device",
        abstract: "A software phone for development: enrolment, proofs and requests, as iPhone or Android phone.",
        discussion: """
            Neither Apple nor Google attests anything here: a gateway that trusts the simulator's authority trusts \
            anyone who has its key.
            """,
        version: "0.1.0",
        subcommands: [
            CA.self, Card.self, Enrol.self, Instances.self, Wallet.self, Federation.self, Create.self, Request.self,
        ])
}

@main
enum Main {
    static func main() {
        exit(start())
    }

    /// Runs the command. The exit code is 0 for success, 1 for a failure, 2 for a wrong command line, or libcurl's code
    /// for a failed transfer.
    private nonisolated static func start() -> Int32 {
        do {
            var command = try AttestGateDevice.parseAsRoot()
            try command.run()
            return 0
        } catch let error as TransferError {
            Terminal.say(error.description)
            return error.code
        } catch let error as SimulatorError {
            Terminal.say(error.description)
            return 1
        } catch let error as CryptographyError {
            Terminal.say(error.description)
            return 1
        } catch let code as ExitCode {
            return code.rawValue
        } catch {
            let isHelp = AttestGateDevice.exitCode(for: error) == .success
            let message =
                isHelp
                ? AttestGateDevice.fullMessage(for: error)
                : AttestGateDevice.usageMessage(for: error, Array(CommandLine.arguments.dropFirst()))
            try? (isHelp ? FileHandle.standardOutput : .standardError).write(contentsOf: Data((message + "\n").utf8))
            return isHelp ? 0 : 2
        }
    }
}

/// The output for people and scripts.
enum Terminal {
    /// Prints one line with the program's name to standard error.
    static func say(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("attestgate-device: \(text)\n".utf8))
    }

    /// Writes bytes unchanged to standard output.
    ///
    /// - Returns: false if the reader has closed it.
    @discardableResult
    static func put(_ bytes: some DataProtocol) -> Bool {
        do {
            try FileHandle.standardOutput.write(contentsOf: bytes)
            return true
        } catch {
            return false
        }
    }

    static func put(line: String) {
        put(Data((line + "\n").utf8))
    }
}
