/// What a listener speaks, by the name that clients ask for it by (ALPN, RFC 7301).
public enum ProtocolName: String, CaseIterable, Sendable {
    case http2 = "h2"
    case http11 = "http/1.1"
}

extension ProtocolName {
    static let key = Key(
        "protocols", .distinct(.choice as Kind<ProtocolName>, minimum: 1), whenMissing: .means("[http/1.1]"),
        "What is spoken there, the one that is preferred first.")
}
