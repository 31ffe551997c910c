internal import Attestation
internal import Encoding

/// The result of one command, for people and for programs.
struct Verdict {
    struct Step {
        /// The name for programs.
        var name: String
        /// The title for people.
        var title: String
        /// Whether the check passed. Nil if it was not reached or not required.
        var isPassed: Bool?
        var detail: String

        static let notReached = "not checked: an earlier check failed"
    }

    /// The subject: `attestation`, `assertion`, `receipt` or `key attestation`.
    var subject: String
    var isAccepted: Bool
    var steps: [Step]
    /// Causes in plain words, the most probable first.
    var causes: [String]
    /// Remarks about the spelling of the input.
    var notes: [String]
    /// Additional members for programs.
    var members: [(String, ReportValue)]
    /// The facts for people.
    var facts: [(String, String)]

    var json: ReportValue {
        let steps = steps.map { step in
            ReportValue.object([
                ("step", .string(step.name)), ("ok", step.isPassed.map { .bool($0) } ?? .null),
                ("detail", .string(step.detail)),
            ])
        }
        return .object(
            [("accepted", .bool(isAccepted)), ("steps", .array(steps))] + members + [
                ("likely_causes", .array(causes.map { .string($0) })), ("notes", .array(notes.map { .string($0) })),
            ])
    }

    var text: String {
        var lines = ["\(subject): \(isAccepted ? "accepted" : "refused")", ""]
        let width = steps.map(\.title.count).max() ?? 0
        // Many checks that were not reached would hide the one that failed.
        let silent = steps.filter { $0.isPassed == nil && $0.detail == Step.notReached }
        let shown = silent.count > 3 ? steps.filter { $0.detail != Step.notReached } : steps
        for step in shown {
            let mark =
                switch step.isPassed {
                case true?: "✓"
                case false?: "✗"
                case nil: "·"
                }
            lines.append("  \(mark) \(Self.pad(step.title, width))  \(step.detail)")
        }
        if shown.count < steps.count {
            lines.append("  · \(steps.count - shown.count) further checks: \(Step.notReached)")
        }
        if !causes.isEmpty { lines += ["", "Likely cause:"] + causes.map { "  \($0)" } }
        if !notes.isEmpty { lines += ["", "Note:"] + notes.map { "  \($0)" } }
        if !facts.isEmpty {
            let width = facts.map(\.0.count).max() ?? 0
            lines += [""] + facts.map { "  \(Self.pad($0.0, width))  \($0.1)" }
        }
        // The author of the input must not control the terminal.
        return lines.map(Self.printable).joined(separator: "\n")
    }

    private static func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func printable(_ line: String) -> String {
        String(
            String.UnicodeScalarView(
                line.unicodeScalars.map { scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate, .unassigned:
                        "\u{fffd}"
                    default: scalar
                    }
                }))
    }
}

/// A JSON value (RFC 8259) whose members are ordered.
indirect enum ReportValue {
    case null
    case bool(Bool)
    case integer(Int64)
    case string(String)
    case array([ReportValue])
    case object([(String, ReportValue)])

    static func optional(_ text: String?) -> ReportValue { text.map { .string($0) } ?? .null }
    static func optional(_ number: Int64?) -> ReportValue { number.map { .integer($0) } ?? .null }

    var text: String {
        switch self {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .integer(let value): String(value)
        case .string(let value): JSONWriter.quoted(value)
        case .array(let values): "[" + values.map(\.text).joined(separator: ", ") + "]"
        case .object(let members):
            "{" + members.map { "\(JSONWriter.quoted($0.0)): \($0.1.text)" }.joined(separator: ", ") + "}"
        }
    }
}
