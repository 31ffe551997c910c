/// A header line as `-H` has it: `Name: value`, or `Name:` to leave out what libcurl would send by itself.
struct HeaderLine: Equatable {
    let name: String
    /// Nil if the line takes a field away.
    let value: String?

    init?(_ text: String) {
        guard let colon = text.firstIndex(of: ":"), colon > text.startIndex,
            !text.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f })
        else { return nil }
        name = String(text[..<colon])
        let rest = text[text.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        value = rest.isEmpty ? nil : String(rest)
    }

    init(name: String, value: String) {
        self.name = name
        self.value = value
    }

    func isNamed(_ other: String) -> Bool { name.lowercased() == other }

    /// As libcurl takes it.
    var text: String { value.map { "\(name): \($0)" } ?? "\(name):" }
}
