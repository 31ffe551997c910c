/// The maximum age of request proofs.
public struct ProofConfiguration: Equatable, Sendable {
    /// How long ago a proof may have been made; whole seconds.
    public let maxAge: Duration
    /// How long a challenge is good for proofs; whole seconds.
    public let challengeLife: Duration
}

extension ProofConfiguration {
    enum Keys {
        static let maxAge = Key(
            "max_age", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the proof was made",
            whenMissing: .means("300s"), "The maximum age of a request proof.")
        static let challengeLife = Key(
            "challenge_life", .wholeSeconds(.seconds(10) ... .seconds(3600)), unit: "since the challenge was issued",
            whenMissing: .means("300s"), "The lifetime of a challenge.")

        static let section = Section(path: "proof", settings: [maxAge.setting, challengeLife.setting])
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let maxAge = reader.read(Keys.maxAge)
        let challengeLife = reader.read(Keys.challengeLife)
        guard let maxAge, let challengeLife else { return nil }
        self.maxAge = maxAge
        self.challengeLife = challengeLife
    }
}
