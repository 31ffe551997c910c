internal import ArgumentParser
internal import Cryptography
internal import DeviceSimulator
internal import Foundation

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
