internal import Encoding
public import Registry
internal import Vocabulary

// The conditions of a search as members of a query, which need no escaping: `app`, `platform`, `state`, `subject`,
// `seen_before` and `seen_since`.
extension DeviceSearch {
    /// The names of the members.
    static let members = ["app", "platform", "state", "subject", "seen_before", "seen_since"]

    init(query: [String: String]) throws(AdministrationFault) {
        self.init()
        app = try Self.value(of: "app", in: query, "an app id", AppID.init)
        platform = try Self.value(of: "platform", in: query, Platform.names, Platform.init)
        state = try Self.value(of: "state", in: query, "pending, active or revoked", DeviceState.init)
        subject = try Self.value(of: "subject", in: query, "a pseudonym in base64url", Self.subject)
        seenBefore = try Self.value(of: "seen_before", in: query, "a date such as 2026-11-27", Self.day)
        seenSince = try Self.value(of: "seen_since", in: query, "a date such as 2026-11-27", Self.day)
    }

    private static func value<Value>(
        of name: String, in query: [String: String], _ expected: String, _ parse: (String) -> Value?
    ) throws(AdministrationFault) -> Value? {
        guard let text = query[name] else { return nil }
        guard let value = parse(text) else { throw .badRequest("'\(name)' must be \(expected).") }
        return value
    }

    /// The beginning of a query, each member with `&` behind it.
    var query: String {
        let values: [(String, String?)] = [
            ("app", app?.description), ("platform", platform?.rawValue), ("state", state?.rawValue),
            ("subject", subject.map { Base64URL.encode($0.bytes) }), ("seen_before", seenBefore.map(Self.date)),
            ("seen_since", seenSince.map(Self.date)),
        ]
        return values.compactMap { name, value in value.map { "\(name)=\($0)&" } }.joined()
    }

    /// Parses a pseudonym of a person.
    ///
    /// - Parameter text: Base64 as in documents, or base64url without padding.
    public static func subject(_ text: String) -> Fingerprint? {
        (Base64.decode(text) ?? Base64URL.decode(text)).flatMap(Fingerprint.init)
    }

    /// Parses a date.
    ///
    /// - Parameter text: Such as `2026-11-27`.
    /// - Returns: The day in days since 1970-01-01 UTC.
    public static func day(_ text: String) -> Int64? {
        guard text.utf8.count == 10 else { return nil }
        return InternetTime(text + "T00:00:00Z").map { $0.seconds / 86_400 }
    }

    /// Returns the date of a day in days since 1970-01-01 UTC.
    static func date(_ day: Int64) -> String { String(InternetTime.text(of: day * 86_400).prefix(10)) }
}
