internal import Encoding
public import Registry

/// What is known of a device, as an object whose members have the names of facts. Unknown facts are left out.
public struct PostureDocument: Codable, Equatable, Sendable {
    /// Times are texts in RFC 3339, UTC.
    public let facts: [PostureFactName: PostureValue]

    init(_ posture: Posture) {
        var facts: [PostureFactName: PostureValue] = [:]
        for fact in posture.facts {
            facts[fact.name] =
                if case .time(let time) = fact.value { .text(InternetTime.text(of: time)) } else { fact.value }
        }
        self.facts = facts
    }

    /// Decodes the document of a gateway, which may be newer: unknown names are skipped.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Name.self)
        var facts: [PostureFactName: PostureValue] = [:]
        for name in members.allKeys {
            guard let fact = PostureFactName(rawValue: name.stringValue) else { continue }
            facts[fact] = try members.decode(PostureValue.self, forKey: name)
        }
        self.facts = facts
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Name.self)
        for (fact, value) in facts { try members.encode(value, forKey: Name(stringValue: fact.rawValue)) }
    }

    /// Returns a fact for people. Nil if it is unknown.
    public func text(of name: PostureFactName) -> String? { facts[name]?.text }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

/// What an app says of its phone: nothing proves it.
public struct SignalsDocument: Codable, Equatable, Sendable {
    /// The time at which the app said it, in RFC 3339, UTC.
    public let claimedAt: String
    /// The values, each by the names that lead to it with full stops between them.
    public let claims: [String: PostureValue]

    private enum CodingKeys: String, CodingKey {
        case claims
        case claimedAt = "claimed_at"
    }

    init(_ signals: Signals) {
        claimedAt = InternetTime.text(of: signals.claimedAt)
        claims = Dictionary(signals.values.map { ($0.name, $0.value) }) { first, _ in first }
    }
}

/// A fact as a value of JSON.
extension PostureValue: Codable {
    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        self =
            if let flag = try? value.decode(Bool.self) {
                .flag(flag)
            } else if let number = try? value.decode(Int64.self) {
                .number(number)
            } else if let texts = try? value.decode([String].self) {
                .texts(texts)
            } else {
                .text(try value.decode(String.self))
            }
    }

    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .text(let text): try value.encode(text)
        case .number(let number), .time(let number): try value.encode(number)
        case .flag(let flag): try value.encode(flag)
        case .texts(let texts): try value.encode(texts)
        }
    }

    /// The value for people.
    public var text: String {
        switch self {
        case .text(let text): text
        case .number(let number), .time(let number): "\(number)"
        case .flag(let flag): flag ? "yes" : "no"
        case .texts(let texts): texts.joined(separator: ", ")
        }
    }
}
