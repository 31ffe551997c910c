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
            facts[fact] =
                if let flag = try? members.decode(Bool.self, forKey: name) {
                    .flag(flag)
                } else if let number = try? members.decode(Int64.self, forKey: name) {
                    .number(number)
                } else if let texts = try? members.decode([String].self, forKey: name) {
                    .texts(texts)
                } else {
                    .text(try members.decode(String.self, forKey: name))
                }
        }
        self.facts = facts
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Name.self)
        for (fact, value) in facts {
            let name = Name(stringValue: fact.rawValue)
            switch value {
            case .text(let text): try members.encode(text, forKey: name)
            case .number(let number), .time(let number): try members.encode(number, forKey: name)
            case .flag(let flag): try members.encode(flag, forKey: name)
            case .texts(let texts): try members.encode(texts, forKey: name)
            }
        }
    }

    /// Returns a fact for people. Nil if it is unknown.
    public func text(of name: PostureFactName) -> String? {
        switch facts[name] {
        case .text(let text): text
        case .number(let number), .time(let number): "\(number)"
        case .flag(let flag): flag ? "yes" : "no"
        case .texts(let texts): texts.joined(separator: ", ")
        case nil: nil
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
