public import Vocabulary

/// An app whose devices may be registered, and the requirements on its attestations.
///
/// The requirements apply at enrolment. They do not concern a device that an operator adds.
public struct AppConfiguration: Equatable, ConfigurationSection {
    @Setting(required: AppID.kind, "The app id: team id, full stop, bundle id; or android: and the package name.")
    public var id: AppID
    /// Production first.
    @Setting(key: "environment", required: Environment.list, "The environments in which the app's keys are attested.")
    public var environments: [Environment]
    @Setting(.section, "Devices that were attested for development, where both environments are admitted.")
    public var developmentDevices: DevelopmentDevicesConfiguration?
    @Setting(
        .text(CounterRuleText.expected, matching: CounterRuleText.pattern, CounterRuleText.parse),
        default: "window 1024",
        "The rule for a device's counter values; each value is accepted once.")
    public var counter: CounterRule
    /// Whether the file states the rule.
    var isCounterWritten: Bool { _counter.isWritten }
    @Setting(.distinct(.choice, minimum: 1), default: "[ios]", "The systems on which the app may run.")
    public var platforms: [Platform]
    @Setting(
        key: "validation_categories", .distinct(ValidationCategory.kind, minimum: 1, maximum: 32),
        "How the app may have been installed.")
    var writtenCategories: [ValidationCategory]?
    @Setting(BundleVersion.kind, "The lowest CFBundleVersion of the app that is accepted.")
    public var minimumBundleVersion: BundleVersion?
    @Setting(key: "minimum_os", SystemVersion.kind, "The lowest system version of devices that is accepted.")
    public var minimumSystem: SystemVersion?
    @Setting(.choice, default: "accept", "Whether devices that state no category and no version are accepted.")
    public var absentExtensions: AbsentExtensions
    @Setting(.choice, default: "nonce-and-tag", "The data that the app's attestations cover.")
    public var clientData: ClientData
    @Setting(
        key: "receipt", .choice, default: "optional", "Whether an attestation must contain a valid receipt.")
    var receiptName: Receipt.Name
    @Setting(
        .integer(0...Int(UInt32.max)), unit: "recently attested keys, counted by Apple",
        "The highest risk metric that is accepted.")
    var maximumRisk: Int?
    /// Nil for other apps than simulated ones, which use the roots of Apple or Google.
    @Setting(
        key: "attestation_root", .file("a readable PEM file"),
        "The root certificate of software phones' attestations.")
    public var rootPath: String?

    // Only for Android.
    @Setting(
        .distinct(SigningCertificate.kind, minimum: 1, maximum: 16), "SHA-256 of the certificates that sign the app.")
    public var signingCertificates: [SigningCertificate]?
    @Setting(.choice, default: "tee", "Where the phone must keep its hardware key, at least.")
    public var securityLevel: SecurityLevel
    @Setting(.choice, default: "any", "Whether the certificate's key must be attested as well.")
    public var certificateKey: CertificateKey
    @Setting(PatchLevel.kind, "The lowest security patch level that is accepted.")
    public var minimumPatchLevel: PatchLevel?
    @Setting(.integer(0...Int(Int32.max)), unit: "of the app", "The lowest version code that is accepted.")
    public var minimumVersionCode: Int?
    @Setting(.choice, default: "refuse", "Whether a key of the app's own may attest the hardware key.")
    public var attestKey: AttestKey
    @Setting(.choice, default: "verified", "The software that phones must have been started with.")
    public var boot: Boot
    /// Nil if Google Play is not asked.
    @Setting(.section, "The demands on tokens of the Play Integrity API.")
    public var playIntegrity: PlayIntegrityConfiguration?

    static let section = Section("apps", of: Self.self)

    /// The files that enrolment reads.
    public var files: [String] { (rootPath.map { [$0] } ?? []) + (playIntegrity?.files ?? []) }

    /// Returns at least one category of installation. Nil for any category: simulated phones have no such restriction
    /// unless the key is set, and Android has no categories.
    public func validationCategories(in environment: Environment) -> Set<ValidationCategory>? {
        if let writtenCategories { return Set(writtenCategories) }
        guard !id.isAndroid else { return nil }
        switch environment {
        case .production:
            // Only macOS has a further category besides these three.
            return platforms.contains(.macos)
                ? [.testFlight, .appStore, .enterprise, .developerID] : [.testFlight, .appStore, .enterprise]
        case .development: return [.development]
        case .simulator: return nil
        }
    }

    /// Whether its devices are software phones.
    public var isSimulated: Bool { environments == [.simulator] }

    public var receipt: Receipt {
        switch receiptName {
        case .required: .required(maximumRisk: maximumRisk.map { UInt32(clamping: $0) })
        case .optional: .optional
        }
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        if let id = _id.value {
            guard id.isAndroid ? checkAndroid(reading) : checkApple(reading) else { return false }
        }
        guard Self.checkDevelopment(_environments, _developmentDevices, reading) else { return false }
        if _rootPath.isWritten, let environment = _environments.value?.first, environment != .simulator {
            reading.refuse(
                _rootPath.place,
                "`attestation_root` has no effect with `environment: \(environment.rawValue)`, which has roots of its own",
                expected: "`environment: simulator`, or no `attestation_root`")
            return false
        }
        if _maximumRisk.isWritten, _receiptName.value == .optional {
            reading.refuse(
                _maximumRisk.place, "a device could avoid `maximum_risk` by sending no receipt",
                expected: "`receipt: required`, or no `maximum_risk`")
            return false
        }
        return true
    }

    /// Refuses what only Apple's attestations know.
    private func checkAndroid(_ reading: Reading) -> Bool {
        if _environments.value?.contains(.development) == true {
            reading.refuse(
                _environments.place, "Android has no attestation of apps under development",
                expected: "`environment: production` or `simulator`")
            return false
        }
        let places = [
            ("platforms", _platforms.isWritten, _platforms.place),
            ("validation_categories", _writtenCategories.isWritten, _writtenCategories.place),
            ("minimum_bundle_version", _minimumBundleVersion.isWritten, _minimumBundleVersion.place),
            ("minimum_os", _minimumSystem.isWritten, _minimumSystem.place),
            ("absent_extensions", _absentExtensions.isWritten, _absentExtensions.place),
            ("receipt", _receiptName.isWritten, _receiptName.place),
            ("maximum_risk", _maximumRisk.isWritten, _maximumRisk.place),
        ]
        guard let (key, _, place) = places.first(where: { $0.1 }) else {
            if _boot.value == .any, _environments.value == [.production] {
                reading.warn(
                    _boot.place, "phones with any system can enrol: use this for tests only",
                    expected: "`boot: verified`")
            }
            return true
        }
        reading.refuse(place, "`\(key)` has no effect for an Android app", expected: "no `\(key)`")
        return false
    }

    /// Refuses what only Android's attestations know.
    private func checkApple(_ reading: Reading) -> Bool {
        let places = [
            ("signing_certificates", _signingCertificates.isWritten, _signingCertificates.place),
            ("security_level", _securityLevel.isWritten, _securityLevel.place),
            ("certificate_key", _certificateKey.isWritten, _certificateKey.place),
            ("minimum_patch_level", _minimumPatchLevel.isWritten, _minimumPatchLevel.place),
            ("minimum_version_code", _minimumVersionCode.isWritten, _minimumVersionCode.place),
            ("attest_key", _attestKey.isWritten, _attestKey.place), ("boot", _boot.isWritten, _boot.place),
            ("play_integrity", _playIntegrity.isWritten, _playIntegrity.place),
        ]
        guard let (key, _, place) = places.first(where: { $0.1 }) else { return true }
        reading.refuse(place, "`\(key)` has an effect for Android apps only", expected: "no `\(key)`")
        return false
    }

    /// A list that may be empty and has no app twice.
    static var list: Kind<[Self]> {
        .list(of: .section, minimum: 0) { apps, reading in
            var places: [AppID: Place] = [:]
            for (app, item) in apps {
                let place = item.place(of: "id")
                if let other = places[app.id] {
                    reading.refuse(
                        place, "the app `\(app.id)` is already configured, \(reading.line(of: other, from: place))")
                } else {
                    places[app.id] = place
                }
                if app.isSimulated {
                    reading.warn(
                        item.place(of: "environment"),
                        "the app `\(app.id)` accepts software phones: use this for tests and demonstrations only",
                        expected: "`environment: production` for real devices")
                }
            }
        }
    }
}

extension AppConfiguration {
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
        /// Apple's rule: only values above the highest one, so that a request that was overtaken is refused.
        case strict
        /// Also values at most this far below the highest, so that parallel requests may overtake each other. 1 to
        /// 1024.
        case window(Int)
    }

    /// The systems on which the app may run.
    public enum Platform: String, CaseIterable, Sendable {
        /// iOS and iPadOS.
        case ios
        case macos
        case tvos
        case watchos
        case visionos
    }

    /// The reason for which the system trusts the app, as Apple's number.
    public struct ValidationCategory: Hashable, Sendable {
        public let number: UInt32
    }

    /// One to eight numbers of at most 18 digits, separated by full stops.
    public struct BundleVersion: Hashable, Sendable {
        public let text: String
    }

    public enum AbsentExtensions: String, CaseIterable, Sendable {
        case accept
        case refuse
    }

    /// The value that the app passes to `attestKey(_:clientDataHash:)` or `setAttestationChallenge`.
    public enum ClientData: String, CaseIterable, Sendable {
        case nonceAndTag = "nonce-and-tag"
        case nonce
        case dsr
    }

    public enum Receipt: Equatable, Sendable {
        case optional
        /// The highest accepted risk metric. Nil for any.
        case required(maximumRisk: UInt32?)

        enum Name: String, CaseIterable, Sendable {
            case required
            case optional
        }
    }
}

extension AppConfiguration.ValidationCategory {
    static let testFlight = Self(number: 2)
    static let development = Self(number: 3)
    static let appStore = Self(number: 4)
    static let enterprise = Self(number: 5)
    static let developerID = Self(number: 6)

    /// The names of Apple's numbers in the conf file.
    static let names: [(name: String, category: Self)] = [
        ("operating-system", Self(number: 1)), ("testflight", testFlight), ("development", development),
        ("app-store", appStore), ("enterprise", enterprise), ("developer-id", developerID), ("other", Self(number: 10)),
    ]
}

extension AppConfiguration.ValidationCategory {
    /// A name or a number: Apple may add categories.
    static var kind: Kind<Self> {
        let names = names.map(\.name)
        let shape = Shape.either([.choice(names), .integer(0...Int(UInt32.max))])
        return .text("one of: \(names.joined(separator: ", ")), or the number of another category", shape: shape) {
            text throws(InvalidValue) in
            if let known = Self.names.first(where: { $0.name == text }) { return known.category }
            guard let number = Decimal.parse(text[...]).flatMap({ UInt32(exactly: $0) }) else {
                throw InvalidValue(
                    "\(Printable.quoted(text)) is not a known value",
                    suggestion: Spelling.nearest(to: text, among: names))
            }
            return Self(number: number)
        }
    }
}

extension SystemVersion {
    static var kind: Kind<SystemVersion> {
        .text("a system version: one to three numbers separated by full stops, such as \"17.4\"", shape: .version) {
            text throws(InvalidValue) in
            guard let version = SystemVersion(text) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a system version")
            }
            return version
        }
    }
}

extension AppConfiguration.BundleVersion {
    fileprivate static var kind: Kind<Self> {
        .text("a CFBundleVersion: one to eight numbers separated by full stops", shape: .version) {
            text throws(InvalidValue) in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            let isVersion = parts.allSatisfy { part in
                (1...18).contains(part.utf8.count)
                    && part.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
            }
            guard isVersion, (1...8).contains(parts.count) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a bundle version")
            }
            return Self(text: text)
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
            throw InvalidValue("\(Printable.quoted(text)) is not a counter rule", suggestion: meant(by: text))
        }
        guard windows.contains(window) else {
            throw InvalidValue(
                "\(Printable.quoted(text)) is out of range",
                suggestion: window > windows.upperBound ? "window \(windows.upperBound)" : nil)
        }
        return .window(window)
    }

    private static func meant(by text: String) -> String? {
        if let number = Decimal.parse(text[...]), windows.contains(number) { return "window \(number)" }
        return Spelling.nearest(to: text, among: ["strict"])
            ?? Spelling.nearest(to: text, among: ["window"]).map { "\($0) \(windows.upperBound)" }
    }
}

extension AppID {
    static var kind: Kind<AppID> { .text(AppIDText.expected, matching: AppIDText.pattern, AppIDText.parse) }
}

/// The notation of app ids.
private enum AppIDText {
    static let expected = """
        an app id: ten capital letters and digits, a full stop, the bundle id: ABCDE12345.org.example.app; \
        or android:org.example.app
        """

    /// A regular expression that every id matches.
    static let pattern = "^([A-Z0-9]{10}\\.[A-Za-z0-9._-]+|android:[A-Za-z0-9._]+)$"

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
            guard let require = level(of: route), require >= .device else { continue }
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
