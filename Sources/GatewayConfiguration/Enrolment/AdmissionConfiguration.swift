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
public struct AdmissionTokenConfiguration: Equatable, Sendable {
    /// The claim `iss`.
    public let issuer: ServiceURL
    /// The claim `aud`.
    public let audience: ServiceURL
    /// The paths of 1 to 8 PEM files, each with a public key on P-256.
    public let keysPaths: [String]

    /// The settings as written. A missing audience means the service's own URL.
    struct Draft: Sendable {
        let issuer: ServiceURL
        let audience: ServiceURL?
        let keysPaths: [String]
    }

    init(_ draft: Draft, audience: ServiceURL) {
        issuer = draft.issuer
        self.audience = draft.audience ?? audience
        keysPaths = draft.keysPaths
    }
}

extension AdmissionTokenConfiguration.Draft {
    enum Keys {
        static let issuer = Key("issuer", .issuerURL, whenMissing: .refused, "The issuer of the tokens: their `iss`.")
        static let audience = Key(
            "audience", .serviceURL, whenMissing: .allowed, "The audience of the tokens: their `aud`.")
        // The limit of `AdmissionTokenVerifier`: each key may cost a verification.
        static let keys = Key(
            "keys", .distinct(.file("a readable PEM file"), minimum: 1, maximum: 8), whenMissing: .refused,
            "The issuer's public keys, each on P-256.")

        static let section = Section(
            path: "enrolment.token", settings: [issuer.setting, audience.setting, keys.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let issuer = reader.read(Keys.issuer)
        let audience = reader.read(Keys.audience)
        let keysPaths = reader.read(Keys.keys)
        guard let issuer, let keysPaths, audience != nil || !reader.has(Keys.audience) else { return nil }
        self.issuer = issuer
        self.audience = audience
        self.keysPaths = keysPaths
    }
}
