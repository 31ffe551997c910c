/// The export of request spans.
public struct TracingConfiguration: Equatable, Sendable {
    /// The URL of an OTLP collector, to which `/v1/traces` is appended.
    public let endpoint: OutboundURL
    /// The path of a PEM file with the authorities of the collector's certificate.
    public let authoritiesPath: String
    /// The path of the token for `Authorization: Bearer`. Nil if none is sent.
    public let tokenPath: String?
    /// The attribute `service.name` of spans.
    public let serviceName: String
    /// The sampling of traces that begin here: one in this many is exported.
    public let sample: Int
    /// The maximum number of exported requests per second and worker.
    public let requestsPerSecond: Int
    public let interval: Duration
    public let timeout: Duration
    /// The maximum size of the queue of each worker, in bytes.
    public let queue: Int
}

extension TracingConfiguration {
    enum Keys {
        static let endpoint = Key(
            "endpoint", .outboundURL, whenMissing: .refused, "The URL of the OTLP collector; /v1/traces is appended.")
        static let authorities = Key(
            "authorities", .file("a readable PEM file"), whenMissing: .means(ReceiptsConfiguration.systemBundle),
            "The authorities of the collector's certificate.")
        static let tokenFile = Key(
            "token_file", .secretFile("a readable file"), whenMissing: .allowed,
            "The file with the bearer token for the collector.")
        static let serviceName = Key(
            "service_name", .serviceName, whenMissing: .means("attestgate"), "The service name in spans.")
        static let sample = Key(
            "sample", .integer(1...1_000_000), whenMissing: .means("1"),
            "One in this number of traces that begin here is recorded.")
        static let requestsPerSecond = Key(
            "requests_per_second", .integer(1...1_000_000), unit: "requests per second and worker",
            whenMissing: .means("100"), "The maximum rate of recorded requests; the others are counted.")
        static let interval = Key(
            "interval", .duration(.milliseconds(100) ... .seconds(60)), whenMissing: .means("5s"),
            "The interval between two exports.")
        static let timeout = Key(
            "timeout", .duration(.milliseconds(100) ... .seconds(60)), unit: "since the call began",
            whenMissing: .means("10s"), "The timeout of a call, including the connection.")
        static let queue = Key(
            "queue", .size(64 << 10...256 << 20), unit: "bytes per worker", whenMissing: .means("4MiB"),
            "The maximum size of queued spans; further spans are dropped and counted.")

        static let section = Section(
            path: "tracing",
            settings: [
                endpoint.setting, authorities.setting, tokenFile.setting, serviceName.setting, sample.setting,
                requestsPerSecond.setting, interval.setting, timeout.setting, queue.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let endpoint = reader.read(Keys.endpoint)
        let authoritiesPath = reader.read(Keys.authorities)
        let tokenPath = reader.read(Keys.tokenFile)
        let serviceName = reader.read(Keys.serviceName)
        let sample = reader.read(Keys.sample)
        let requestsPerSecond = reader.read(Keys.requestsPerSecond)
        let interval = reader.read(Keys.interval)
        let timeout = reader.read(Keys.timeout)
        let queue = reader.read(Keys.queue)
        guard let endpoint, let authoritiesPath, tokenPath != nil || !reader.has(Keys.tokenFile), let serviceName,
            let sample, let requestsPerSecond, let interval, let timeout, let queue
        else { return nil }
        guard !endpoint.path.hasSuffix(Self.path) else {
            reading.refuse(
                reader.place(of: Keys.endpoint), "`\(Self.path)` would occur twice: it is appended",
                suggestion: String(endpoint.text.dropLast(Self.path.count)))
            return nil
        }
        if !endpoint.isEncrypted, reader.has(Keys.authorities) {
            reading.warn(
                reader.place(of: Keys.authorities),
                "`authorities` has no effect: \(endpoint.text) is called without TLS",
                expected: "an https URL as `endpoint`, or no `authorities`")
        }
        self.endpoint = endpoint
        self.authoritiesPath = authoritiesPath
        self.tokenPath = tokenPath
        self.serviceName = serviceName
        self.sample = sample
        self.requestsPerSecond = requestsPerSecond
        self.interval = interval
        self.timeout = timeout
        self.queue = queue
    }

    private static let path = "/v1/traces"
}

extension Kind where Value == String {
    /// A name for queries and screens.
    fileprivate static var serviceName: Kind {
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
