internal import HTTP
internal import Vocabulary

/// The policy for the client's header fields: which of them reach the upstream.
///
/// An upstream trusts what proxies say about the client. So every field that a proxy could set is stripped, whether
/// or not this gateway sets it: a field that is stripped today cannot be spoofed tomorrow. Fields that would make a
/// server execute another method or path than the authorized one are refused.
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

    /// By `place(of:)`. The first matching entry decides.
    private let entries: [[Entry]]
    /// Bit n stands for place n: those with entries, and those with entries that refuse.
    private let places: UInt64
    private let refusingPlaces: UInt64
    /// Bit n stands for the `FieldName` of that raw value.
    private let strippedKnown: UInt64

    /// - Parameters:
    ///   - own: Names that are stripped whatever the conf file says, besides the constant ones; in lower case.
    ///   - stripped: Names that the conf file adds.
    ///   - forwarded: Names that are forwarded although they would be stripped or refused.
    init(own: [String] = [], stripped: [String] = [], forwarded: [String] = []) {
        let all =
            ProtectedFields.own.map { Entry($0, .strip) } + own.map { Entry(name: $0, .strip) }
            + forwarded.map { Entry(name: $0, .forward) }
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
            // The gateway writes the framing itself, and answers 100-continue.
            if name.isHopByHop || name == .contentLength || name == .expect
                || all.first(where: { $0.matches(text.span) })?.verdict == .strip
            {
                known |= 1 << UInt64(name.rawValue)
            }
        }
    }

    /// Returns whether `verdict` is `.refuse`, at lower cost.
    func refuses(_ name: Span<UInt8>, _ known: FieldName) -> Bool {
        // None of them is a known name.
        guard known == .other, refusingPlaces >> UInt64(Self.place(of: name)) & 1 == 1 else { return false }
        return verdict(name, known) == .refuse
    }

    /// Returns the verdict on a field.
    ///
    /// - Parameters:
    ///   - name: The field's name as sent; at least one byte.
    ///   - known: The known name, or `.other`.
    func verdict(_ name: Span<UInt8>, _ known: FieldName) -> Verdict {
        guard known == .other else { return strippedKnown >> UInt64(known.rawValue) & 1 == 1 ? .strip : .forward }
        let place = Self.place(of: name)
        // This test alone forwards most fields.
        guard places >> UInt64(place) & 1 == 1 else { return .forward }
        for entry in entries[place] where entry.matches(name) { return entry.verdict }
        return .forward
    }

    private static let placeCount = 54

    /// Returns the place of a name: by its first letter; for names that begin with `X-`, as most entries do, by the
    /// letter after that.
    private static func place(of name: Span<UInt8>) -> Int {
        let isExtension = name.count > 2 && name[0] | 0x20 == UInt8(ascii: "x") && name[1] == UInt8(ascii: "-")
        let letter = Int((name[isExtension ? 2 : 0] | 0x20) &- UInt8(ascii: "a"))
        return min(letter, 26) + (isExtension ? 27 : 0)
    }
}
