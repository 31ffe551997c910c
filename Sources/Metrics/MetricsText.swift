/// Prometheus' text format, version 0.0.4.
public enum MetricsText {
    public static let contentType: StaticString = "text/plain; version=0.0.4; charset=utf-8"

    /// Families without samples are left out.
    public static func encode(_ families: [MetricFamily]) -> [UInt8] {
        var text = ""
        for family in families where !family.samples.isEmpty { append(family, to: &text) }
        return Array(text.utf8)
    }

    private static func append(_ family: MetricFamily, to text: inout String) {
        text += "# HELP \(family.name) \(escape(family.help, quotes: false))\n"
        text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
        for sample in family.samples {
            text += family.name
            text += sample.suffix
            if !sample.labels.isEmpty {
                let labels = sample.labels.map { "\($0.name)=\"\(escape($0.value, quotes: true))\"" }
                text += "{\(labels.joined(separator: ","))}"
            }
            text += " \(sample.value)\n"
        }
    }

    private static func escape(_ value: String, quotes: Bool) -> String {
        var escaped = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
