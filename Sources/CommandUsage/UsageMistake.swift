public import ArgumentParser
internal import Vocabulary

/// An unknown command or option on a command line, with the known one that it probably means.
public struct UsageMistake: Equatable, Sendable {
    enum Kind: String, Sendable {
        case command
        case option
    }

    let kind: Kind
    /// The word on the command line, without the value behind `=`.
    let word: String
    let suggestion: String?

    /// The maximum number of characters of a word that are shown.
    private static let longest = 80

    /// Finds the first unknown command or option. Returns nil if there is none, so the mistake is another.
    ///
    /// - Parameters:
    ///   - arguments: The command line without the name of the program.
    ///   - root: The program.
    public init?(in arguments: [String], of root: any ParsableCommand.Type) {
        var command = root
        // Each option of the commands so far is known also after a subcommand.
        var options = Self.options(of: root)
        for argument in arguments {
            if argument == "--" { return nil }
            if argument.hasPrefix("--") {
                let word = String(argument.prefix { $0 != "=" })
                guard !options.contains(word) else { continue }
                self.init(.option, word, among: options)
                return
            }
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, !argument.hasPrefix("-") else { continue }
            if argument == "help" { return nil }
            guard let next = commands.first(where: { $0._commandName == argument }) else {
                self.init(.command, argument, among: commands.map { $0._commandName })
                return
            }
            command = next
            options += Self.options(of: next)
        }
        return nil
    }

    private init(_ kind: Kind, _ word: String, among known: [String]) {
        self.kind = kind
        self.word = word
        suggestion = Spelling.nearest(to: word, among: known)
    }

    /// Returns the long options in a command's help.
    private static func options(of command: any ParsableCommand.Type) -> [String] {
        command.helpMessage(includeHidden: true).split(separator: "\n").flatMap { line -> [String] in
            let text = line.drop { $0 == " " }
            guard text.hasPrefix("-") else { return [] }
            // Names stand before the description, which two spaces separate: `-h, --help   Show help`.
            let names = text.firstRange(of: "  ").map { text[..<$0.lowerBound] } ?? text
            return names.split { " ,/".contains($0) }.filter { $0.hasPrefix("--") }.map(String.init)
        }
    }
}

extension UsageMistake: CustomStringConvertible {
    /// A message for people.
    public var description: String {
        let shown = String(
            String.UnicodeScalarView(
                word.unicodeScalars.prefix(Self.longest).map { $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }))
        return "Unknown \(kind.rawValue) '\(shown)'." + (suggestion.map { " Did you mean '\($0)'?" } ?? "")
    }
}

extension ParsableCommand {
    /// Returns the message for a command line that was refused: the library's, or what is unknown on it.
    ///
    /// - Parameter arguments: The command line without the name of the program.
    public static func usageMessage(for error: any Error, _ arguments: [String]) -> String {
        let message = fullMessage(for: error)
        guard let mistake = UsageMistake(in: arguments, of: Self.self) else { return message }
        let usage = message.firstRange(of: "Usage:").map { message[$0.lowerBound...] } ?? ""
        return "Error: \(mistake)\n\(usage)"
    }
}
