/// What is required, besides the app itself, to admit a device.
public enum AdmissionConfiguration: Equatable, Sendable {
    /// Nobody: any genuine app is let in.
    case open
    /// An issuer whose token the phone brings, a login for example.
    case token(AdmissionTokenConfiguration)
    /// An operator, who releases each device.
    case approval

    enum Name: String, CaseIterable, Sendable {
        case open
        case token
        case approval
    }
}

/// Who signs admission tokens, and for whom.
public struct AdmissionTokenConfiguration: Equatable, Sendable {
    /// `iss`.
    public let issuer: ServiceURL
    /// `aud`.
    public let audience: ServiceURL
    /// PEM files with a public key on P-256 each, 1 to 8.
    public let keysPaths: [String]

    /// As it stands in the file, where the audience may be left to the service's own URL.
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
        // As many as `AdmissionTokenVerifier` tries: each may cost a verification.
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
