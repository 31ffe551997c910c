/// What a listener speaks, by the name that clients ask for it by (ALPN, RFC 7301).
public enum ProtocolName: String, CaseIterable, Sendable {
    case http2 = "h2"
    case http11 = "http/1.1"
}

extension ProtocolName {
    static let key = Key(
        "protocols", .distinct(.protocolName, minimum: 1), whenMissing: .means("[h2, http/1.1]"),
        "The protocols, in order of preference.")
}

extension Kind where Value == ProtocolName {
    fileprivate static var protocolName: Kind {
        let choice = Kind.choice
        return Kind(expected: choice.expected, shape: choice.shape) { item, reading in
            guard item.text == "h2c" else { return choice.read(item, reading) }
            reading.refuse(
                item.place, "HTTP/2 in the clear (`h2c`) is not supported for clients", expected: choice.expected,
                suggestion: ProtocolName.http2.rawValue)
            return nil
        }
    }
}
