internal import Yams

/// Turns what the YAML parser complains of into what an operator can act upon.
enum YAMLSyntax {
    static let aliasMessage = "anchors and aliases are not taken"
    static let aliasExpected = "every value where it applies; text that begins with `*` or `&` in quotes"

    static func report(_ error: any Error, _ reading: Reading) {
        switch error as? YamlError {
        case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _),
            .composer(let context, let problem, let mark, _):
            report(problem, context, Place(line: mark.line, column: mark.column), reading)
        case .reader(let problem, _, _, _):
            reading.refuse(Place(line: 1, column: 1), "this is not YAML: \(problem)")
        default:
            reading.refuse(Place(line: 1, column: 1), "this is not YAML: \(error)")
        }
    }

    private static func report(_ problem: String, _ context: YamlError.Context?, _ place: Place, _ reading: Reading) {
        let doing = context?.text ?? ""
        if problem.contains("another document") {
            reading.refuse(place, "a second document begins here", expected: "one document in the file")
        } else if problem.contains("undefined alias") || doing.contains("scanning an a") {
            let isListener = reading.source.line(place.line).contains("*:")
            reading.refuse(
                context.map { Place(line: $0.mark.line, column: $0.mark.column) } ?? place, aliasMessage,
                expected: isListener ? "0.0.0.0 to listen on every address, not `*`" : aliasExpected)
        } else if let context, context.mark.line < place.line, doing.contains("flow") || doing.contains("quoted") {
            // A bracket or quote that is never closed is found missing far below; it is the opening one to look at.
            reading.refuse(
                Place(line: context.mark.line, column: context.mark.column),
                "this is not YAML: \(problem) by line \(place.line) (\(context.text))",
                expected: "the end of what begins here")
        } else {
            let beginning = context.map { " (\($0.text), line \($0.mark.line))" } ?? ""
            reading.refuse(place, "this is not YAML: \(problem)\(beginning)", expected: hint(place, reading.source))
        }
    }

    /// The two mistakes that everybody makes, and that the parser explains in the words of its grammar.
    private static func hint(_ place: Place, _ source: SourceText) -> String? {
        if source.scalar(at: place) == "\t" { return "spaces: YAML is never indented by tabs" }
        let nearby = source.line(place.line) + source.line(place.line - 1)
        if nearby.contains("[") && nearby.contains("::") {
            return "an IPv6 address in quotes, for example \"[::1]:8443\""
        }
        return nil
    }
}
