import ArgumentParser
import Testing

@testable import CommandUsage

@Suite("Unknown commands and options")
struct UsageMistakeTests {
    private struct Program: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "program", version: "1", subcommands: [Check.self, Device.self])
    }

    private struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "check")

        @Option(help: "The conf file. --not-an-option is part of this text.") var config: String
        @Flag(inversion: .prefixedNo, help: "Whether names are resolved.") var resolve = false
    }

    private struct Device: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "device", subcommands: [List.self])
    }

    private struct List: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "list")

        @Option(name: [.customShort("n"), .customLong("limit")]) var limit = 1
        @Argument var names: [String] = []
    }

    private func mistake(_ line: String) -> String? {
        UsageMistake(in: line.split(separator: " ").map(String.init), of: Program.self)?.description
    }

    @Test(
        "what is unknown is named with what it probably means",
        arguments: [
            ("chexk", "Unknown command 'chexk'. Did you mean 'check'?"),
            ("device lst", "Unknown command 'lst'. Did you mean 'list'?"),
            ("device banana", "Unknown command 'banana'."),
            ("check --confg a", "Unknown option '--confg'. Did you mean '--config'?"),
            ("check --confg=secret", "Unknown option '--confg'. Did you mean '--config'?"),
            ("check --no-resolv", "Unknown option '--no-resolv'. Did you mean '--no-resolve'?"),
            ("device list --limt 3", "Unknown option '--limt'. Did you mean '--limit'?"),
            ("--verson", "Unknown option '--verson'. Did you mean '--version'?"),
            ("check --not-an-option", "Unknown option '--not-an-option'."),
        ])
    func unknown(line: String, message: String) {
        #expect(mistake(line) == message)
    }

    @Test(
        "what is known, a value, and what follows `--` is no mistake",
        arguments: [
            "", "check", "check --config a", "check --config=a --resolve", "device list -n 3 chexk", "help chexk",
            "device list -- --limt", "check extra", "--help", "--version",
        ])
    func known(line: String) {
        #expect(mistake(line) == nil)
    }

    @Test("a long or unprintable word is cut and shown without control characters")
    func printable() throws {
        let message = try #require(UsageMistake(in: [String(repeating: "\u{1B}", count: 9_999)], of: Program.self))
        #expect(message.description == "Unknown command '\(String(repeating: "?", count: 80))'.")
    }

    @Test("the message keeps the usage of the library, and its own where nothing is unknown")
    func messages() throws {
        func message(_ arguments: [String]) -> String {
            do {
                _ = try Program.parseAsRoot(arguments)
                return ""
            } catch {
                return Program.usageMessage(for: error, arguments)
            }
        }
        let unknown = message(["check", "--confg", "a"])
        #expect(unknown.hasPrefix("Error: Unknown option '--confg'. Did you mean '--config'?\nUsage: program check"))
        #expect(message(["check"]).contains("Missing expected argument '--config"))
    }
}
