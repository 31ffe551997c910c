public import Vocabulary

/// An app whose devices may be registered, and how their statements are judged.
public struct AppConfiguration: Equatable, Sendable {
    public let id: AppID
    public let environment: Environment
    public let counter: CounterRule
    /// Of those that are enrolled; a device that an operator adds has none.
    public let attestation: AttestationDemands

    /// The environment in which the app's keys are attested.
    public enum Environment: String, CaseIterable, Sendable {
        case production
        /// Apple's servers for apps that are being developed; their keys prove no published app.
        case development
        /// Software phones with an authority of their own, never Apple's: for tests and demonstrations only.
        case simulator
    }

    /// The rule for a device's counter values; each value is accepted once.
    public enum CounterRule: Equatable, Sendable {
        /// Apple's rule: only values above the highest.
        case strict
        /// Values at most this far behind the highest too, so that parallel requests may overtake each other. 1 to 1024.
        case window(Int)
    }
}

extension AppConfiguration {
    enum Keys {
        static let id = Key(
            "id", .appID, whenMissing: .refused, "The app id: team id, full stop, bundle id.")
        static let environment = Key(
            "environment", .choice as Kind<Environment>, whenMissing: .refused,
            "The environment in which the app's keys are attested.")
        static let counter = Key(
            "counter", .text(CounterRuleText.expected, matching: CounterRuleText.pattern, CounterRuleText.parse),
            whenMissing: .means("strict"),
            "The rule for a device's counter values; each value is accepted once.")

        static let section = Section(
            path: "apps",
            settings: [id.setting, environment.setting, counter.setting] + AttestationDemands.Keys.settings)
    }

    init?(_ item: Item, _ reading: Reading) {
        guard let reader = SectionReader(item, Keys.section, reading) else { return nil }
        let id = reader.read(Keys.id)
        let environment = reader.read(Keys.environment)
        let counter = reader.read(Keys.counter)
        let attestation = AttestationDemands(reader, environment, reading)
        guard let id, let environment, let counter, let attestation else { return nil }
        self.id = id
        self.environment = environment
        self.counter = counter
        self.attestation = attestation
    }
}

extension Kind where Value == AppID {
    static var appID: Kind { .text(AppIDText.expected, matching: AppIDText.pattern, AppIDText.parse) }
}

extension Kind where Value == [AppConfiguration] {
    /// May be empty; no app twice.
    static var apps: Kind {
        .list(of: .section(AppConfiguration.Keys.section, AppConfiguration.init), minimum: 0) { apps, reading in
            var places: [AppID: Place] = [:]
            for (app, item) in apps {
                let place = item.place(of: "id")
                if let other = places[app.id] {
                    reading.refuse(
                        place, "the app `\(app.id)` is already configured, \(reading.line(of: other, from: place))")
                } else {
                    places[app.id] = place
                }
                if app.environment == .simulator {
                    reading.warn(
                        item.place(of: "environment"),
                        "the app `\(app.id)` accepts software phones: use this for tests and demonstrations only",
                        expected: "`environment: production` for real devices")
                }
            }
        }
    }
}
