internal import ArgumentParser
internal import CommandUsage
internal import Foundation

@main
enum Main {
    /// Exit code 0: everything was verified; 1: something was not; 2: usage.
    static func main() {
        exit(start())
    }

    private nonisolated static func start() -> Int32 {
        do {
            var command = try MicroCommand.parseAsRoot()
            try command.run()
            return 0
        } catch {
            let code = MicroCommand.exitCode(for: error)
            let message =
                code == .validationFailure
                ? MicroCommand.usageMessage(for: error, Array(CommandLine.arguments.dropFirst()))
                : MicroCommand.fullMessage(for: error)
            (code == .success ? FileHandle.standardOutput : .standardError).write(Data((message + "\n").utf8))
            return code == .success ? 0 : code == .validationFailure ? 2 : 1
        }
    }
}
