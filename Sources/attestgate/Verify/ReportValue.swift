/// A JSON value (RFC 8259) whose members keep their order.
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
        case .string(let value): Self.quote(value)
        case .array(let values): "[" + values.map(\.text).joined(separator: ", ") + "]"
        case .object(let members):
            "{" + members.map { "\(Self.quote($0.0)): \($0.1.text)" }.joined(separator: ", ") + "}"
        }
    }

    private static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case _ where scalar.value < 0x20 || scalar.value == 0x7f:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
