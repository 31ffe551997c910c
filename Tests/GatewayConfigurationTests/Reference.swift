@testable import GatewayConfiguration

/// The reference of the settings: a conf file with a comment above every key.
struct Reference {
    struct Entry {
        /// The comment above the key as one line.
        let comment: String
        /// The first line of the comment, or that of the key if there is none.
        let start: Int
        /// The line of the key, which may be commented out.
        let line: Int
        /// The text before the mark of the comment: spaces, and `#` in a section that is commented out.
        let margin: String
    }

    private let lines: [String]
    /// The first occurrence of every key by its path. Names of upstreams, policies and decision points are left out.
    let documented: [String: Entry]

    init(_ text: String) {
        lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        documented = Self.documented(in: lines)
    }

    /// Returns the text with the settings that it lacks, each as its declaration describes it.
    func completed() -> String {
        var additions: [Int: [String]] = [:]
        for section in Configuration.sections {
            var last: Entry?
            for setting in section.settings {
                if let entry = documented[Self.path(of: setting, in: section)] {
                    last = entry
                } else if let last {
                    additions[end(of: last), default: []] += Self.block(of: setting, margin: last.margin)
                }
            }
        }
        return lines.indices.flatMap { [lines[$0]] + (additions[$0] ?? []) }.joined(separator: "\n")
    }

    /// Returns the path of a setting from the top of the file.
    static func path(of setting: SettingDeclaration, in section: Section) -> String {
        section.path.isEmpty ? setting.name : "\(section.path).\(setting.name)"
    }

    /// Returns the last line of an entry with all below it.
    private func end(of entry: Entry) -> Int {
        let next = documented.values.lazy.filter { $0.line > entry.line && $0.margin.count <= entry.margin.count }
        var line = (next.map(\.start).min() ?? lines.count) - 1
        while lines[line].isEmpty { line -= 1 }
        return line
    }

    private static func block(of setting: SettingDeclaration, margin: String) -> [String] {
        let values = setting.type.firstMatch(of: #/from (\S+ to [^\s:;]+)/#).map { String($0.1) } ?? setting.type
        let purpose = "\(setting.summary.dropLast()): \(values)."
        let (text, key) =
            switch setting.absence {
            case .refused: ([purpose + " Required."], "\(setting.name):")
            case .allowed: ([purpose + " Optional."], "# \(setting.name):")
            case .means(let standard): ([purpose, "Default: \(standard)."], "\(setting.name): \(standard)")
            }
        return text.flatMap { wrapped($0, margin: margin + "# ") } + [margin + key]
    }

    /// Returns text in lines of at most 100 columns.
    private static func wrapped(_ text: String, margin: String) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + 1 + word.count <= 100 {
                lines[lines.count - 1] += " \(word)"
            } else {
                lines.append(margin + word)
            }
        }
        return lines
    }

    private static let named: Set = ["upstreams", "policies", "decision_points"]
    private static let names = Set(Configuration.sections.flatMap(\.names))

    /// Returns a line without the mark of a comment before its key.
    private static func uncommented(_ line: Substring) -> Substring {
        guard let mark = line.firstRange(of: "# ") else { return line }
        let rest = line[mark.upperBound...]
        let key = rest.drop { $0 == " " || $0 == "-" }
        // A key may be commented out within a section that is.
        if key.hasPrefix("# ") {
            let inner = uncommented(rest)
            return inner == rest ? line : line[..<mark.lowerBound] + inner
        }
        guard let colon = key.firstIndex(of: ":"), names.contains(String(key[..<colon])) else { return line }
        return line[..<mark.lowerBound] + rest
    }

    private static func documented(in lines: [String]) -> [String: Entry] {
        var parents: [(indentation: Int, key: String)] = []
        var comment = ""
        var start: Int?
        var margin = ""
        var result: [String: Entry] = [:]
        for (number, line) in lines.enumerated() {
            let isComment = line.drop { $0 == " " }.hasPrefix("#")
            let blanked = uncommented(line[...]).replacing("- ", with: "  ")
            let text = blanked.drop { $0 == " " }
            guard let colon = text.firstIndex(of: ":"),
                text[..<colon].allSatisfy({ $0.isLowercase || $0 == "_" }) || names.contains(String(text[..<colon]))
            else {
                if isComment, start == nil {
                    start = number
                    margin = String(line.prefix { $0 == "#" || $0 == " " }.dropLast("# ".count))
                }
                if !isComment { start = nil }
                comment = isComment ? comment + " " + text.drop { $0 == "#" || $0 == " " } : ""
                continue
            }
            let indentation = blanked.count - text.count
            parents.removeAll { $0.indentation >= indentation }
            let isName = indentation == 2 && parents.count == 1 && named.contains(parents[0].key)
            if !isName {
                parents.append((indentation, String(text[..<colon])))
                let path = parents.map(\.key).joined(separator: ".")
                if result[path] == nil {
                    result[path] = Entry(comment: comment, start: start ?? number, line: number, margin: margin)
                }
            }
            comment = ""
            start = nil
        }
        return result
    }
}
