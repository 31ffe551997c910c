/// What one key of the conf file is: the row of a table from which files are read, keys suggested and
/// `conf/attestgate.yaml` checked.
public struct Setting: Equatable, Sendable {
    /// What happens when the key is missing.
    public enum Absence: Equatable, Sendable {
        /// The conf file is refused.
        case refused
        /// The setting does not apply.
        case allowed
        /// As if this had been written.
        case means(String)
    }

    public let name: String
    /// What the value must be: "a duration from 100ms to 5m".
    public let type: String
    /// The same for editors.
    public let shape: Shape
    /// What is counted, or from where to where the time runs.
    public let unit: String?
    public let absence: Absence
    /// What it is for, in a sentence.
    public let summary: String
}

/// One mapping of the conf file and all keys that may stand in it.
public struct Section: Equatable, Sendable {
    /// The way there from the top: `listeners.tls`. Empty for the top itself.
    public let path: String
    public let settings: [Setting]
    /// Names that keys had in earlier versions, and what they are called now.
    var former: [String: String] = [:]

    /// Every section there is, as the tables name them, from the top: each once, and before those within it.
    public static let all: [Section] = Configuration.Keys.section.withInner()

    /// Itself and all within it. One that stands at several places, as `tls` does, has one path.
    private func withInner() -> [Section] {
        var found = [self]
        for section in settings.flatMap(\.shape.sections) {
            found += section.withInner().filter { inner in !found.contains { $0.path == inner.path } }
        }
        return found
    }

    var names: [String] { settings.map(\.name) }

    /// The key of this section that was probably meant by an unknown one.
    func meant(by key: String) -> String? {
        if let now = former[key] { return now }
        // For an operator who writes a secret where only its path belongs.
        if names.contains(key + "_file") { return key + "_file" }
        return Spelling.nearest(to: key, among: names) ?? ForeignNames.meant(by: key, among: names)
    }

    /// Where a key belongs that stands in the wrong section, to be read behind its name; nothing if that is nowhere or anywhere.
    static func others(with key: String) -> String {
        let paths = all.filter { $0.names.contains(key) }.map {
            $0.path.isEmpty ? "the top of the file" : "`\($0.path)`"
        }
        guard (1...3).contains(paths.count) else { return "" }
        return " here: it belongs to \(paths.joined(separator: " or "))"
    }
}
