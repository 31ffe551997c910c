internal import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import Foundation

/// The command line: argument parsing, then one call.
struct AttestGateDevice: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "attestgate-device",
        abstract: "A software phone for development: enrolment, App Attest assertions and requests.",
        discussion: """
            Apple attests nothing here: a gateway that trusts the simulator's authority trusts anyone who has its \
            key.
            """,
        version: "0.1.0",
        subcommands: [CA.self, Enrol.self, Create.self, Request.self])
}

@main
enum Main {
    static func main() {
        exit(start())
    }

    /// Exit code 0: done; 1: it cannot be done; 2: the command line is wrong; of a transfer, libcurl's own code.
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
            let message = AttestGateDevice.fullMessage(for: error)
            let isHelp = AttestGateDevice.exitCode(for: error) == .success
            try? (isHelp ? FileHandle.standardOutput : .standardError).write(contentsOf: Data((message + "\n").utf8))
            return isHelp ? 0 : 2
        }
    }
}

/// What people and scripts read.
enum Terminal {
    /// To standard error, in one line with the program's name.
    static func say(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("attestgate-device: \(text)\n".utf8))
    }

    /// To standard output, byte for byte.
    ///
    /// - Returns: false if nobody reads it any more.
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
