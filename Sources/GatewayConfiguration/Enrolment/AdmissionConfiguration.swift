/// The requirement for admitting a device, besides a genuine app.
public enum AdmissionConfiguration: Equatable, Sendable {
    /// No requirement.
    case open
    /// A token from an issuer, such as a login service, that the phone presents.
    case token(AdmissionTokenConfiguration)
    /// The approval of each device by an operator.
    case approval
    /// The signature of a health card.
    case card(CardConfiguration)

    enum Name: String, CaseIterable, Sendable {
        case open
        case token
        case approval
        case card
    }
}

/// The health cards whose holders may register devices.
public struct CardConfiguration: Equatable, ConfigurationSection {
    /// The paths of PEM files.
    @Setting(
        key: "authorities", required: .distinct(.file("a readable PEM file"), minimum: 1, maximum: 64),
        "The authorities that issue the cards' certificates.")
    public var authoritiesPaths: [String]

    static let section = Section("enrolment.card", of: Self.self)
}

/// The issuer, the audience and the keys of admission tokens.
public struct AdmissionTokenConfiguration: Equatable, ConfigurationSection {
    /// The claim `iss`.
    @Setting(required: ServiceURL.issuer, "The issuer of the tokens: their `iss`.")
    public var issuer: ServiceURL
    @Setting(key: "audience", ServiceURL.kind, "The audience of the tokens: their `aud`.")
    private var writtenAudience: ServiceURL?
    // The limit of `AdmissionTokenVerifier`: each key may cost a verification.
    /// Nil if the keys are fetched.
    @Setting(
        key: "keys", .distinct(.file("a readable PEM file"), minimum: 1, maximum: 8),
        "The issuer's public keys, each on P-256.")
    var keysPaths: [String]?
    @Setting(key: "jwks_uri", OutboundURL.kind, "The URL of the issuer's public keys, a JWK Set.")
    var keySetURL: OutboundURL?
    @Setting(
        .choice, default: "false", "Whether the issuer's metadata names the JWK Set (OpenID Connect Discovery).")
    var discovery: Switch
    @Setting(
        key: "authorities", .file("a readable PEM file"), "The authorities of the issuer's certificate.")
    var writtenAuthoritiesPath: String?
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(86_400)), unit: "between two fetches", default: "1h",
        "The interval of fetches; Cache-Control shortens or lengthens it, at most fourfold.")
    public var interval: Duration
    @Setting(
        .wholeSeconds(.seconds(1) ... .seconds(3_600)), unit: "since the fetch", default: "1m",
        "The delay before a failed fetch is retried; it doubles with each failure, up to `interval`.")
    public var retry: Duration
    @Setting(
        .duration(.milliseconds(100) ... .seconds(60)), unit: "since the fetch began", default: "10s",
        "The timeout of a fetch, including the connection.")
    public var timeout: Duration
    @Setting(
        .wholeSeconds(.seconds(2) ... .seconds(2_592_000)), unit: "since the issuer confirmed the keys", default: "1d",
        "The maximum age of the keys; with older ones no token is accepted.")
    public var staleAfter: Duration

    /// Debian's authorities unless the file names others. They are read only if keys are fetched.
    public var authoritiesPath: String { writtenAuthoritiesPath ?? ReceiptsConfiguration.systemBundle }

    /// Where the issuer's keys are.
    public enum Keys: Equatable, Sendable {
        /// The paths of PEM files.
        case files([String])
        /// The URL of a JWK Set.
        case url(OutboundURL)
        /// The issuer, whose metadata names the URL.
        case discovery(OutboundURL)
    }

    public var keys: Keys {
        if let keysPaths { return .files(keysPaths) }
        if let keySetURL { return .url(keySetURL) }
        guard let url = issuerURL else { preconditionFailure("an issuer with discovery was checked") }
        return .discovery(url)
    }

    /// The issuer without a slash at the end. Nil if it cannot be called.
    private var issuerURL: OutboundURL? {
        let text = issuer.text.hasSuffix("/") ? String(issuer.text.dropLast()) : issuer.text
        return try? OutboundURL.parse(text)
    }

    static let section = Section("enrolment.token", of: Self.self)

    /// The claim `aud`.
    public var audience: ServiceURL {
        guard let writtenAudience else { preconditionFailure("the default is the URL of the service") }
        return writtenAudience
    }

    /// Sets the audience if the file has none.
    func setDefaultAudience(_ url: ServiceURL) {
        if !_writtenAudience.isWritten { _writtenAudience.derive(url) }
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard isComplete, checkKeys(item, reading) else { return false }
        guard keysPaths == nil else { return true }
        if staleAfter <= interval {
            reading.refuse(
                _staleAfter.isWritten ? _staleAfter.place : _interval.place,
                "the keys would be stale before the next fetch: `stale_after` (\(DurationText.format(staleAfter))) is not"
                    + " longer than `interval` (\(DurationText.format(interval)))",
                expected: "`stale_after` of more than \(DurationText.format(interval))")
            return false
        }
        if let keySetURL {
            if !keySetURL.isEncrypted, _writtenAuthoritiesPath.isWritten {
                reading.warn(
                    _writtenAuthoritiesPath.place,
                    "`authorities` has no effect: \(keySetURL.text) is called without TLS",
                    expected: "an https URL as `jwks_uri`, or no `authorities`")
            }
            reading.mention(.server(keySetURL.server.description), at: _keySetURL.place)
        } else if let url = issuerURL {
            reading.mention(.server(url.server.description), at: _issuer.place)
        } else {
            reading.refuse(
                _issuer.place, "\(Printable.quoted(issuer.text)) cannot be called", expected: "a host and a port from 1"
            )
            return false
        }
        return true
    }

    /// Requires one source of keys, and refuses beside files what only fetches use.
    private func checkKeys(_ item: Item, _ reading: Reading) -> Bool {
        let sources = [
            ("keys", keysPaths != nil, _keysPaths.place), ("jwks_uri", keySetURL != nil, _keySetURL.place),
            ("discovery", discovery == .on, _discovery.place),
        ].filter(\.1)
        guard let (first, _, _) = sources.first else {
            reading.refuse(
                item.place, "`token` has no keys of the issuer",
                expected: "`keys`, `jwks_uri` or `discovery: true`")
            return false
        }
        if sources.count > 1 {
            reading.refuse(
                sources[1].2, "`\(first)` already says where the keys are", expected: "`\(first)` or `\(sources[1].0)`")
            return false
        }
        guard keysPaths != nil else { return true }
        let fetching = [
            ("authorities", _writtenAuthoritiesPath.isWritten, _writtenAuthoritiesPath.place),
            ("interval", _interval.isWritten, _interval.place), ("retry", _retry.isWritten, _retry.place),
            ("timeout", _timeout.isWritten, _timeout.place),
            ("stale_after", _staleAfter.isWritten, _staleAfter.place),
        ]
        guard let (key, _, place) = fetching.first(where: { $0.1 }) else { return true }
        reading.refuse(
            place, "`\(key)` has no effect beside `keys`, which are not fetched",
            expected: "`keys` or `\(key)`, not both")
        return false
    }
}
