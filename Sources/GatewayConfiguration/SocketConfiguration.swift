/// The file of a listener's Unix socket, and who may connect to it.
public struct SocketConfiguration: Equatable, ConfigurationSection {
    @Setting(
        .text("an octal mode in quotes, from \"0600\" to \"0666\"", matching: "^0[0-7]{3}$", Self.parseMode),
        default: "\"0660\"", "The mode of the file: who has write permission may connect.")
    public var mode: UInt32
    @Setting(.text(Self.expectedUser, Self.parseUser), "The owner of the file; the process's user unless stated.")
    public var owner: String?
    @Setting(.text("a group, by its name or number", Self.parseUser), "The group of the file.")
    public var group: String?
    @Setting(
        .distinct(.text(Self.expectedUser, Self.parseUser), minimum: 1),
        "The users whose processes may connect, whatever the mode.")
    public var users: [String]?

    static let section = Section("listeners.socket", of: Self.self)

    /// The place at which the section begins.
    public var place: Place { beginning }

    private static let expectedUser = "a user, by its name or number"

    private static func parseMode(_ text: String) throws(InvalidValue) -> UInt32 {
        guard text.utf8.count == 4, text.hasPrefix("0"), let mode = UInt32(text, radix: 8) else {
            throw InvalidValue("\(Printable.quoted(text)) is no mode", suggestion: "0660")
        }
        guard mode & 0o111 == 0, mode & 0o600 == 0o600 else {
            throw InvalidValue("\(Printable.quoted(text)) is no mode of a socket", suggestion: "0660")
        }
        return mode
    }

    private static func parseUser(_ text: String) throws(InvalidValue) -> String {
        guard !text.isEmpty, text.utf8.count <= 64, !text.contains(where: { $0 == ":" || $0.isWhitespace }) else {
            throw InvalidValue("\(Printable.quoted(text)) is no name")
        }
        return text
    }
}
