internal import Yams

/// Turns what the YAML parser complains of into what an operator can act upon.
enum YAMLSyntax {
    static let aliasMessage = "anchors and aliases are not supported"
    static let aliasExpected = "each value where it applies; put text that begins with `*` or `&` in quotes"

    static func report(_ error: any Error, in source: SourceText, _ reading: Reading) {
        switch error as? YamlError {
        case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _),
            .composer(let context, let problem, let mark, _):
            report(problem, context, source.place(line: mark.line, column: mark.column), reading)
        case .reader(let problem, _, _, _):
            reading.refuse(source.place(line: 1, column: 1), "this is not YAML: \(problem)")
        default:
            reading.refuse(source.place(line: 1, column: 1), "this is not YAML: \(error)")
        }
    }

    private static func report(_ problem: String, _ context: YamlError.Context?, _ place: Place, _ reading: Reading) {
        let source = reading.source(of: place)
        let doing = context?.text ?? ""
        let beginning = context.map { source.place(line: $0.mark.line, column: $0.mark.column) }
        if problem.contains("another document") {
            reading.refuse(place, "a second document begins here", expected: "one document in the file")
        } else if problem.contains("undefined alias") || doing.contains("scanning an a") {
            let line = source.line(place.line)
            let meant: String? =
                line.contains("*:")
                ? "0.0.0.0 to listen on every address, not `*`"
                : line.contains("*.") ? "the full name of each host: patterns are not supported" : nil
            reading.refuse(beginning ?? place, aliasMessage, expected: meant ?? aliasExpected)
        } else {
            let mistake = YAMLMistake(problem, doing, at: place, since: beginning, in: source)
            reading.refuse(mistake.place, "this is not YAML: \(mistake.message)", expected: mistake.expected)
        }
    }
}
