/// The requests to Apple for newer receipts of devices, which contain the risk metric.
public struct ReceiptsConfiguration: Equatable, Sendable {
    /// The team id of the developer's account: ten letters and digits.
    public let team: String
    /// The id of the key: ten letters and digits.
    public let keyID: String
    /// The path of a PEM file (PKCS #8) that only its owner can read.
    public let keyPath: String
    /// The service that replaces Apple's. Nil for Apple's, chosen by the environment of each app.
    public let baseURL: OutboundURL?
    /// The path of a PEM file with the authorities of the service's certificate.
    public let authoritiesPath: String
    /// The minimum time between two requests for one device, in whole seconds.
    public let interval: Duration
    /// The time from a failed call to the next call for the same device, in whole seconds. Each further failure doubles
    /// it.
    public let retry: Duration
    public let timeout: Duration
    /// The maximum number of calls in flight.
    public let concurrency: Int
    public let callsPerMinute: Int

    /// Debian's bundle of authorities, which is the default.
    public static let systemBundle = "/etc/ssl/certs/ca-certificates.crt"

    /// Apple's production service, which knows apps of either environment.
    public static let production = fixed("https://data.appattest.apple.com")
    public static let development = fixed("https://data-development.appattest.apple.com")

    private static func fixed(_ text: String) -> OutboundURL {
        guard let url = try? OutboundURL.parse(text) else { preconditionFailure("\(text) is right") }
        return url
    }
}

extension ReceiptsConfiguration {
    enum Keys {
        static let team = Key("team", .appleID, whenMissing: .refused, "The team id of the apps.")
        static let keyID = Key("key_id", .appleID, whenMissing: .refused, "The id of the key.")
        static let key = Key(
            "key", .secretFile("a readable PEM file"), whenMissing: .refused,
            "The private key from Apple, enabled for DeviceCheck.")
        static let baseURL = Key(
            "base_url", .outboundURL, whenMissing: .allowed, "The URL of a service that replaces Apple's.")
        static let authorities = Key(
            "authorities", .file("a readable PEM file"), whenMissing: .means(systemBundle),
            "The authorities of the service's certificate.")
        static let interval = Key(
            "interval", .wholeSeconds(.seconds(1) ... .seconds(7_776_000)), unit: "between two requests",
            whenMissing: .means("1d"), "The minimum time between two requests about one device.")
        static let retry = Key(
            "retry", .wholeSeconds(.seconds(1) ... .seconds(86_400)), unit: "since the call",
            whenMissing: .means("5m"), "The delay before a failed call is retried; it doubles with each failure.")
        static let timeout = Key(
            "timeout", .duration(.milliseconds(100) ... .seconds(60)), unit: "since the call began",
            whenMissing: .means("20s"), "The timeout of a call, including the connection.")
        static let concurrency = Key(
            "concurrency", .integer(1...64), unit: "calls", whenMissing: .means("4"),
            "The maximum number of calls in flight.")
        static let callsPerMinute = Key(
            "calls_per_minute", .integer(1...60_000), unit: "calls", whenMissing: .means("60"),
            "The maximum rate of calls.")

        static let section = Section(
            path: "enrolment.receipts",
            settings: [
                team.setting, keyID.setting, key.setting, baseURL.setting, authorities.setting, interval.setting,
                retry.setting, timeout.setting, concurrency.setting, callsPerMinute.setting,
            ])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let team = reader.read(Keys.team)
        let keyID = reader.read(Keys.keyID)
        let keyPath = reader.read(Keys.key)
        let baseURL = reader.read(Keys.baseURL)
        let authoritiesPath = reader.read(Keys.authorities)
        let interval = reader.read(Keys.interval)
        let retry = reader.read(Keys.retry)
        let timeout = reader.read(Keys.timeout)
        let concurrency = reader.read(Keys.concurrency)
        let callsPerMinute = reader.read(Keys.callsPerMinute)
        guard let team, let keyID, let keyPath, baseURL != nil || !reader.has(Keys.baseURL), let authoritiesPath,
            let interval, let retry, let timeout, let concurrency, let callsPerMinute
        else { return nil }
        if let baseURL, !baseURL.isEncrypted, reader.has(Keys.authorities) {
            reading.warn(
                item.place(of: "authorities"), "`authorities` has no effect: \(baseURL.text) is called without TLS",
                expected: "an https URL as `base_url`, or no `authorities`")
        }
        if let baseURL { reading.mention(.server(baseURL.server.description), at: reader.place(of: Keys.baseURL)) }
        self.team = team
        self.keyID = keyID
        self.keyPath = keyPath
        self.baseURL = baseURL
        self.authoritiesPath = authoritiesPath
        self.interval = interval
        self.retry = retry
        self.timeout = timeout
        self.concurrency = concurrency
        self.callsPerMinute = callsPerMinute
    }
}

extension Kind where Value == String {
    /// An identifier of a team or a key at Apple.
    fileprivate static var appleID: Kind {
        .text("ten capital letters and digits", shape: .textOrNumber) { text throws(InvalidValue) in
            let isID =
                text.utf8.count == 10
                && text.utf8.allSatisfy { byte in
                    UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                }
            guard isID else {
                let upper = text.uppercased()
                let isCase = upper != text && upper.utf8.count == 10
                throw InvalidValue(
                    "\(Printable.quoted(text)) is not an id from Apple", suggestion: isCase ? upper : nil)
            }
            return text
        }
    }
}
