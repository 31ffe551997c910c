/// The requests to Apple for newer receipts of devices, which contain the risk metric.
public struct ReceiptsConfiguration: Equatable, ConfigurationSection {
    @Setting(required: AppleID.kind, "The team id of the apps.")
    public var team: String
    @Setting(required: AppleID.kind, "The id of the key.")
    public var keyID: String
    /// PKCS #8.
    @Setting(
        key: "key", required: .secretFile("a readable PEM file"), "The private key from Apple, enabled for DeviceCheck."
    )
    public var keyPath: String
    /// Nil for Apple's, chosen by the environment of each app.
    @Setting(OutboundURL.kind, "The URL of a service that replaces Apple's.")
    public var baseURL: OutboundURL?
    @Setting(
        key: "authorities", .file("a readable PEM file"), default: Self.systemBundle,
        "The authorities of the service's certificate.")
    public var authoritiesPath: String
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(7_776_000)), unit: "between two requests", default: "1d",
        "The minimum time between two requests about one device.")
    public var interval: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(86_400)), unit: "since the call", default: "5m",
        "The delay before a failed call is retried; it doubles with each failure.")
    public var retry: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(60)), unit: "since the call began", default: "20s",
        "The timeout of a call, including the connection.")
    public var timeout: Duration
    @Setting(.integer(1...64), unit: "calls", default: "4", "The maximum number of calls in flight.")
    public var concurrency: Int
    @Setting(.integer(1...60_000), unit: "calls", default: "60", "The maximum rate of calls.")
    public var callsPerMinute: Int

    static let section = Section("enrolment.receipts", of: Self.self)

    /// Debian's bundle of authorities, which is the default.
    public static let systemBundle = "/etc/ssl/certs/ca-certificates.crt"

    /// Apple's production service, which knows apps of either environment.
    public static let production = fixed("https://data.appattest.apple.com")
    public static let development = fixed("https://data-development.appattest.apple.com")

    private static func fixed(_ text: String) -> OutboundURL {
        guard let url = try? OutboundURL.parse(text) else { preconditionFailure("\(text) is right") }
        return url
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete else { return false }
        guard let baseURL else { return true }
        if !baseURL.isEncrypted, _authoritiesPath.isWritten {
            reading.warn(
                _authoritiesPath.place, "`authorities` has no effect: \(baseURL.text) is called without TLS",
                expected: "an https URL as `base_url`, or no `authorities`")
        }
        reading.mention(.server(baseURL.server.description), at: _baseURL.place)
        return true
    }
}

/// An identifier of a team or a key at Apple.
private enum AppleID {
    static var kind: Kind<String> {
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
