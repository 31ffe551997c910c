/// The requirement for admitting a device, besides a genuine app.
public enum AdmissionConfiguration: Equatable, Sendable {
    /// No requirement.
    case open
    /// A token from an issuer, such as a login service, that the phone presents.
    case token(AdmissionTokenConfiguration)
    /// The approval of each device by an operator.
    case approval

    enum Name: String, CaseIterable, Sendable {
        case open
        case token
        case approval
    }
}

/// The issuer, the audience and the keys of admission tokens.
public struct AdmissionTokenConfiguration: Equatable, ConfigurationSection {
    /// The claim `iss`.
    @Setting(required: ServiceURL.issuer, "The issuer of the tokens: their `iss`.")
    public var issuer: ServiceURL
    @Setting(key: "audience", ServiceURL.kind, "The audience of the tokens: their `aud`.")
    private var writtenAudience: ServiceURL?
    // The limit of `AdmissionTokenVerifier`: each key may cost a verification.
    @Setting(
        key: "keys", required: .distinct(.file("a readable PEM file"), minimum: 1, maximum: 8),
        "The issuer's public keys, each on P-256.")
    public var keysPaths: [String]

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
}
