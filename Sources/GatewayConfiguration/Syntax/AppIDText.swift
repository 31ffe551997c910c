internal import Vocabulary

/// Ids of apps as the conf file writes them.
enum AppIDText {
    static let expected =
        "an app id: ten capital letters and digits, a full stop, the bundle id: ABCDE12345.org.example.app"

    /// What all of them fit, as a regular expression.
    static let pattern = "^[A-Z0-9]{10}\\.[A-Za-z0-9._-]+$"

    static func parse(_ text: String) throws(InvalidValue) -> AppID {
        guard let id = AppID(text) else {
            // Case counts in the bundle id, but the prefix has only capitals.
            let prefix = text.prefix { $0 != "." }
            let capitals = prefix.uppercased() + text.dropFirst(prefix.count)
            throw InvalidValue(
                "\(Printable.quoted(text)) is not an app id", suggestion: AppID(capitals).map(\.description))
        }
        return id
    }
}
