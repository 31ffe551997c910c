public import Vocabulary

/// An app whose devices may be registered, and the requirements on its attestations.
public struct AppConfiguration: Equatable, Sendable {
    public let id: AppID
    public let environment: Environment
    public let counter: CounterRule
    /// The requirements on attestations at enrolment. They do not concern a device that an operator adds.
    public let attestation: AttestationDemands

    /// The environment in which the app's keys are attested.
    public enum Environment: String, CaseIterable, Sendable {
        case production
        /// Apple's environment for apps under development. Its keys prove no published app.
        case development
        /// Simulated phones with an authority of their own: for tests and demonstrations only.
        case simulator
    }

    /// The rule for a device's counter values; each value is accepted once.
    public enum CounterRule: Equatable, Sendable {
        /// Apple's rule: only values above the highest one.
        case strict
        /// Also values at most this far below the highest, so that parallel requests may overtake each other. 1 to
        /// 1024.
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
    /// A list that may be empty and has no app twice.
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

/// The notation of counter rules: `strict`, `window 64`.
enum CounterRuleText {
    /// The window sizes. The registry stores at most this many values of each device.
    private static let windows = 1...1024

    static let expected = "`strict`, or `window N` with N from \(windows.lowerBound) to \(windows.upperBound)"

    /// A regular expression that every rule matches.
    static let pattern = "^(strict|window [1-9][0-9]{0,3})$"

    static func parse(_ text: String) throws(InvalidValue) -> AppConfiguration.CounterRule {
        if text == "strict" { return .strict }
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0] == "window", let window = Decimal.parse(words[1]) else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is not a counter rule",
                suggestion: Spelling.nearest(to: text, among: ["strict"]))
        }
        guard windows.contains(window) else { throw InvalidValue("\(Printable.quoted(text)) is out of range") }
        return .window(window)
    }
}

/// The notation of app ids.
private enum AppIDText {
    static let expected =
        "an app id: ten capital letters and digits, a full stop, the bundle id: ABCDE12345.org.example.app"

    /// A regular expression that every id matches.
    static let pattern = "^[A-Z0-9]{10}\\.[A-Za-z0-9._-]+$"

    static func parse(_ text: String) throws(InvalidValue) -> AppID {
        guard let id = AppID(text) else {
            // The bundle id is case-sensitive; the prefix has only capitals.
            let prefix = text.prefix { $0 != "." }
            let capitals = prefix.uppercased() + text.dropFirst(prefix.count)
            throw InvalidValue(
                "\(Printable.quoted(text)) is not an app id", suggestion: AppID(capitals).map(\.description))
        }
        return id
    }
}

/// Checks between routes, apps and the registry.
///
/// They read the file as written. So the level and the apps of a route are checked even if the route has another
/// mistake.
enum AppReferences {
    static func check(_ root: Item, _ reading: Reading) {
        let lacking = lacking(in: root)
        // An unreadable id is already reported; references to it are no further mistake.
        let ids = root["apps"]?.elements.map { $0["id"]?.text.flatMap { AppID($0) } } ?? []
        let known = ids.contains(nil) ? [] : ids.compactMap(\.self)
        for listener in root["listeners"]?.elements ?? [] where !lacking.isEmpty {
            checkAcceptance(of: listener, lacking, reading)
            for host in listener["hosts"]?.elements ?? [] { checkAcceptance(of: host, lacking, reading) }
        }
        for route in root["routes"]?.elements ?? [] {
            guard let require = level(of: route), require != .certificate else { continue }
            if !lacking.isEmpty {
                refuse(require, of: route, lacking, reading)
            } else if !known.isEmpty {
                checkApps(of: route, known, reading)
            }
        }
    }

    /// Returns the sections among `apps` and `registry` that are missing, in the words of a message. A section that
    /// exists but is refused does not count as missing.
    static func lacking(in root: Item) -> [String] {
        var lacking: [String] = []
        if root["registry"] == nil { lacking.append("a section `registry`") }
        switch root["apps"]?.content {
        case nil: lacking.append("a section `apps`")
        case .sequence(let apps) where apps.isEmpty: lacking.append("at least one app in the section `apps`")
        case .some: break
        }
        return lacking
    }

    /// Returns the level of a route, or nil if the route or its `require` is refused.
    private static func level(of route: Item) -> RouteConfiguration.Requirement? {
        guard case .mapping = route.content else { return nil }
        guard let require = route["require"] else { return .standard }
        return require.text.flatMap { RouteConfiguration.Requirement(rawValue: $0) }
    }

    /// Refuses self-signed certificates where apps or a registry are missing. By itself, such a certificate proves
    /// nothing.
    ///
    /// - Parameter host: a host or a listener.
    private static func checkAcceptance(of host: Item, _ lacking: [String], _ reading: Reading) {
        let words = host["clients"]?["accept"]?.elements ?? []
        guard let item = words.first(where: { $0.text == ListenerConfiguration.Clients.Acceptance.registered.rawValue })
        else { return }
        reading.refuse(
            item.place, "`registered` needs the sections `registry` and `apps`, which know the registered certificates",
            expected: "\(lacking.joined(separator: " and ")), or `accept: [issued]`")
    }

    /// Refuses a level that cannot be enforced, the default included. Nothing is weakened silently.
    private static func refuse(
        _ require: RouteConfiguration.Requirement, of route: Item, _ lacking: [String], _ reading: Reading
    ) {
        let subject =
            route["require"] == nil
            ? "`require` is missing; its default `\(require.rawValue)`" : "`require: \(require.rawValue)`"
        reading.refuse(
            route.place(of: "require"), "\(subject) needs the sections `registry` and `apps`",
            expected: "\(lacking.joined(separator: " and ")), or `require: certificate`")
    }

    private static func checkApps(of route: Item, _ known: [AppID], _ reading: Reading) {
        for item in route["apps"]?.elements ?? [] {
            guard let text = item.text, let id = AppID(text), !known.contains(id) else { continue }
            let names = known.map(\.description)
            reading.refuse(
                item.place, "there is no app \(Printable.quoted(text))",
                expected: "one of: \(names.prefix(20).joined(separator: ", "))",
                suggestion: Spelling.nearest(to: text, among: names))
        }
    }
}
