/// The export of request spans.
public struct TracingConfiguration: Equatable, ConfigurationSection {
    @Setting(required: OutboundURL.kind, "The URL of the OTLP collector; /v1/traces is appended.")
    public var endpoint: OutboundURL
    @Setting(
        key: "authorities", .file("a readable PEM file"), default: ReceiptsConfiguration.systemBundle,
        "The authorities of the collector's certificate.")
    public var authoritiesPath: String
    @Setting(
        key: "token_file", .secretFile("a readable file"), "The file with the bearer token for the collector.")
    public var tokenPath: String?
    @Setting(ServiceName.kind, default: "attestgate", "The service name in spans.")
    public var serviceName: String
    @Setting(.integer(1...1_000_000), default: "1", "One in this number of traces that begin here is recorded.")
    public var sample: Int
    @Setting(
        .integer(1...1_000_000), unit: "requests per second and worker", default: "100",
        "The maximum rate of recorded requests; the others are counted.")
    public var requestsPerSecond: Int
    @Setting(.duration(.milliseconds(100) ... .seconds(60)), default: "5s", "The interval between two exports.")
    public var interval: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(60)), unit: "since the call began", default: "10s",
        "The timeout of a call, including the connection.")
    public var timeout: Duration
    @Setting(
        .size(64 << 10...256 << 20), unit: "bytes per worker", default: "4MiB",
        "The maximum size of queued spans; further spans are dropped and counted.")
    public var queue: Int

    static let section = Section("tracing", of: Self.self)

    private static let path = "/v1/traces"

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        guard !endpoint.path.hasSuffix(Self.path) else {
            reading.refuse(
                _endpoint.place, "`\(Self.path)` would occur twice: it is appended",
                suggestion: String(endpoint.text.dropLast(Self.path.count)))
            return false
        }
        if !endpoint.isEncrypted, _authoritiesPath.isWritten {
            reading.warn(
                _authoritiesPath.place, "`authorities` has no effect: \(endpoint.text) is called without TLS",
                expected: "an https URL as `endpoint`, or no `authorities`")
        }
        return true
    }
}

/// A name for queries and screens.
private enum ServiceName {
    static var kind: Kind<String> {
        .text("1 to 64 letters, digits, dots, hyphens and underscores") { text throws(InvalidValue) in
            let isName =
                (1...64).contains(text.utf8.count)
                && text.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                        true
                    default: false
                    }
                }
            guard isName else { throw InvalidValue("\(Printable.quoted(text)) is not a service name") }
            return text
        }
    }
}
