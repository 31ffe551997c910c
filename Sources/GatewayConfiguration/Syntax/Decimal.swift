/// Whole numbers in their one spelling: digits alone, no sign, no leading zero. YAML 1.1 takes `010` for eight and
/// `1_000` for a thousand; here both are refused rather than guessed.
enum Decimal {
    static func parse(_ text: Substring) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }) else { return nil }
        guard text.utf8.count == 1 || !text.hasPrefix("0") else { return nil }
        return Int(text)
    }
}
