/// What is written, and where to.
public struct LogConfiguration: Equatable, Sendable {
    public let access: Access

    /// One line for each request.
    public enum Access: Equatable, Sendable {
        case standardOutput
        case off
        /// Appended to, and made if it is not there.
        case file(String)
    }
}

extension LogConfiguration {
    enum Keys {
        static let access = Key(
            "access", .access, whenMissing: .means("stdout"), "Where the line for each request goes.")

        static let section = Section(path: "log", settings: [access.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading), let access = reader.read(Keys.access) else {
            return nil
        }
        self.access = access
    }
}

extension Kind where Value == LogConfiguration.Access {
    /// A path needs a slash: else `stderr` or `on` would quietly become files of that name.
    fileprivate static var access: Kind {
        let expected = "stdout, off, or the path of a file, with a slash: ./access.log"
        return Kind(expected: expected) { item, reading in
            switch item.text {
            case "stdout": return .standardOutput
            case "off": return .off
            case .some(let path) where path.contains("/") && !path.hasSuffix("/"):
                return .file(reading.resolve(path: path))
            case .some, .none:
                reading.refuse(
                    item.place, "found \(item.summary)", expected: expected,
                    suggestion: item.text.flatMap { Spelling.nearest(to: $0, among: ["stdout", "off"]) })
                return nil
            }
        }
    }
}
