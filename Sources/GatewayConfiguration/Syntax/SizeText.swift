/// Sizes as the conf file writes them: `512`, `16KiB`, `1MiB`, `1GiB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int)] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]

    /// As a regular expression.
    static let pattern = "^(0|[1-9][0-9]*)([KMG]iB)?$"

    static func parse(_ text: String) throws(InvalidValue) -> Int {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...]
        guard let number = Decimal.parse(digits) else { throw InvalidValue("\(Printable.quoted(text)) is not a size") }
        guard !unit.isEmpty else { return number }
        if unit.first == "." || unit.first == "," {
            throw InvalidValue("\(Printable.quoted(text)) is not a whole number", suggestion: inSmallerUnit(text))
        }
        guard let factor = units.first(where: { $0.name == unit })?.bytes else {
            throw InvalidValue(
                "\(Printable.quoted(String(unit))) is not a unit of size", suggestion: suggestion(number, unit))
        }
        let (size, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLarge else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return size
    }

    static func format(_ bytes: Int) -> String {
        for unit in units where bytes >= unit.bytes && bytes % unit.bytes == 0 {
            return "\(bytes / unit.bytes)\(unit.name)"
        }
        return String(bytes)
    }

    /// `1.5MiB` is 1536KiB: in the largest unit in which it is a whole number.
    private static func inSmallerUnit(_ text: String) -> String? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == "." || $0 == ",") }
        guard let number = Double(digits.replacing(",", with: ".")), number < 1_000_000,
            let letter = text[digits.endIndex...].lowercased().first,
            let factor = units.first(where: { $0.name.lowercased().first == letter })?.bytes
        else { return nil }
        let bytes = number * Double(factor)
        return bytes.rounded() == bytes ? format(Int(bytes)) : nil
    }

    /// `1MB`, `1m`, `1 mb` and `1Mi` all mean 1MiB here, since nothing else can be said; `512B` means 512.
    private static func suggestion(_ number: Int, _ unit: Substring) -> String? {
        let letter = unit.lowercased().first { $0 != " " }
        if letter == "b" { return String(number) }
        return units.first { $0.name.lowercased().first == letter }.map { "\(number)\($0.name)" }
    }
}
