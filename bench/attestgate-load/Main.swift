internal import ArgumentParser
internal import CommandUsage
internal import Foundation

@main
enum Main {
    /// Exit code 0: no request failed; 1: some did; 2: the command line, or what it names, cannot be used.
    static func main() {
        exit(start())
    }

    private nonisolated static func start() -> Int32 {
        do {
            return try LoadCommand.parse().execute()
        } catch {
            let isHelp = LoadCommand.exitCode(for: error) == .success
            let message =
                isHelp
                ? LoadCommand.fullMessage(for: error)
                : LoadCommand.usageMessage(for: error, Array(CommandLine.arguments.dropFirst()))
            (isHelp ? FileHandle.standardOutput : .standardError).write(Data((message + "\n").utf8))
            return isHelp ? 0 : 2
        }
    }
}
