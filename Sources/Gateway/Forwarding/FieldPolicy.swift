internal import HTTP
internal import Vocabulary

/// Which of the client's header fields reach the upstream.
///
/// An upstream believes what proxies say about the client. So everything a client could say in a proxy's name is taken
/// out, whether or not this gateway says it too: a field that is stripped today cannot be spoofed tomorrow. Fields that
/// would make a server behind execute another method or path than the authorised one are refused outright.
struct FieldPolicy {
    enum Verdict {
        case forward
        case strip
        case refuse
    }

    private struct Entry {
        /// In lower case.
        let text: [UInt8]
        let isPrefix: Bool
        let verdict: Verdict

        init(_ pattern: FieldPattern, _ verdict: Verdict) {
            text = Array(pattern.text.utf8)
            isPrefix = pattern.isPrefix
            self.verdict = verdict
        }

        init(name: String, _ verdict: Verdict) {
            text = Array(name.lowercased().utf8)
            isPrefix = false
            self.verdict = verdict
        }

        func matches(_ name: Span<UInt8>) -> Bool {
            guard isPrefix else { return name.equals(lowercase: text) }
            return name.count >= text.count && name.extracting(first: text.count).equals(lowercase: text)
        }
    }

    /// By `place(of:)`. The first entry that matches decides.
    private let entries: [[Entry]]
    /// Bit n stands for the n-th place: those with entries, and those with entries that refuse.
    private let places: UInt64
    private let refusingPlaces: UInt64
    /// Bit n stands for the `FieldName` of that raw value.
    private let strippedKnown: UInt64

    /// - Parameters:
    ///   - stripped: names that the conf file adds.
    ///   - forwarded: names that are passed on although they would be removed or refused.
    init(stripped: [String] = [], forwarded: [String] = []) {
        let all =
            ProtectedFields.own.map { Entry($0, .strip) } + forwarded.map { Entry(name: $0, .forward) }
            + ProtectedFields.refused.map { Entry($0, .refuse) } + ProtectedFields.removed.map { Entry($0, .strip) }
            + stripped.map { Entry(name: $0, .strip) }
        var entries = [[Entry]](repeating: [], count: Self.placeCount)
        var (places, refusing): (UInt64, UInt64) = (0, 0)
        for entry in all {
            let place = Self.place(of: entry.text.span)
            entries[place].append(entry)
            places |= 1 << UInt64(place)
            if entry.verdict == .refuse { refusing |= 1 << UInt64(place) }
        }
        self.entries = entries
        self.places = places
        refusingPlaces = refusing
        strippedKnown = FieldName.allCases.reduce(into: 0) { known, name in
            let text = Array(String(describing: name.lowercase).utf8)
            // The gateway writes the framing itself, and answers 100-continue here.
            if name.isHopByHop || name == .contentLength || name == .expect
                || all.first(where: { $0.matches(text.span) })?.verdict == .strip
            {
                known |= 1 << UInt64(name.rawValue)
            }
        }
    }

    /// Whether `verdict` is `.refuse`, at less expense.
    func refuses(_ name: Span<UInt8>, _ known: FieldName) -> Bool {
        // HTTP knows none of them.
        guard known == .other, refusingPlaces >> UInt64(Self.place(of: name)) & 1 == 1 else { return false }
        return verdict(name, known) == .refuse
    }

    /// - Parameters:
    ///   - name: the field's name as sent; at least one byte.
    ///   - known: what HTTP knows it as.
    func verdict(_ name: Span<UInt8>, _ known: FieldName) -> Verdict {
        guard known == .other else { return strippedKnown >> UInt64(known.rawValue) & 1 == 1 ? .strip : .forward }
        let place = Self.place(of: name)
        // Most fields are let through by this alone.
        guard places >> UInt64(place) & 1 == 1 else { return .forward }
        for entry in entries[place] where entry.matches(name) { return entry.verdict }
        return .forward
    }

    private static let placeCount = 54

    /// By its first letter; of names that begin with `X-`, as most do that are looked for, by the one that follows.
    private static func place(of name: Span<UInt8>) -> Int {
        let isExtension = name.count > 2 && name[0] | 0x20 == UInt8(ascii: "x") && name[1] == UInt8(ascii: "-")
        let letter = Int((name[isExtension ? 2 : 0] | 0x20) &- UInt8(ascii: "a"))
        return min(letter, 26) + (isExtension ? 27 : 0)
    }
}
