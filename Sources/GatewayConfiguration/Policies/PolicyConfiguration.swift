public import Vocabulary

/// A policy: what a route demands of the device beyond its registration.
public struct PolicyConfiguration: Equatable, ConfigurationSection {
    @Setting(.section, "The conditions for devices with Apple's systems.")
    public var ios: AppleConditionsConfiguration?
    @Setting(.section, "The conditions for Android devices.")
    public var android: AndroidConditionsConfiguration?
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(86_400 * 3_650)), unit: "since the newest attestation",
        "The maximum age of the attestation.")
    public var attestedWithin: Duration?
    @Setting(.distinct(.choice, minimum: 1), "How the device must have been admitted.")
    public var admission: [Admission]?
    @Setting(
        key: "pdp", .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse),
        isIndependent: true, "The decision point that is asked, too.")
    public var decisionPoint: String?
    @Setting(.choice, default: "false", "Whether the policy's verdicts are only counted and logged.")
    public var simulate: Switch
    @Setting(
        .text(ConfiguredName.expected, matching: ConfiguredName.pattern, ConfiguredName.parse), isIndependent: true,
        "Another policy, whose verdicts on the same requests are counted and logged.")
    public var simulation: String?

    static let section = Section("policies", of: Self.self)

    /// How a device was admitted.
    public enum Admission: String, CaseIterable, Sendable {
        case open
        case token
        case approval
        case `operator`
    }

    /// Whether it says anything about devices.
    public var hasConditions: Bool { ios != nil || android != nil || attestedWithin != nil || admission != nil }

    static var named: Kind<[String: Self]> { .named("a policy") }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        let says = ["ios", "android", "attested_within", "admission", "pdp", "simulation"]
        guard !says.contains(where: { item[$0] != nil }) else { return true }
        reading.refuse(
            item.place, "the policy allows everything",
            expected: "at least one of: \(says.joined(separator: ", "))")
        return false
    }
}

/// Conditions on devices with Apple's systems.
public struct AppleConditionsConfiguration: Equatable, ConfigurationSection {
    @Setting(key: "minimum_os", SystemVersion.kind, "The lowest system version.")
    public var minimumSystem: SystemVersion?
    @Setting(
        key: "minimum_os_source", .choice, default: "attested",
        "Whether `minimum_os` accepts what the app says where no version is attested, as before iOS 17.")
    public var minimumSystemSource: SystemSource
    @Setting(
        key: "minimum_app_version", AppleAppVersion.kind, "The lowest CFBundleVersion of the app.")
    public var minimumAppVersion: String?
    @Setting(
        .integer(0...Int(UInt32.max)), unit: "recently attested keys, counted by Apple", "The highest risk metric.")
    public var maximumRisk: Int?
    @Setting(
        .distinct(AppConfiguration.ValidationCategory.kind, minimum: 1, maximum: 32),
        "How the app may have been installed.")
    public var distribution: [AppConfiguration.ValidationCategory]?

    static let section = Section("policies.ios", of: Self.self)

    public enum SystemSource: String, CaseIterable, Sendable {
        case attested
        case claimed
    }

    func check(_ item: Item, _ reading: Reading) -> Bool {
        guard _minimumSystemSource.isWritten, !_minimumSystem.isWritten else { return Conditions.check(item, reading) }
        reading.refuse(
            _minimumSystemSource.place, "`minimum_os_source` has no effect without `minimum_os`",
            expected: "`minimum_os`, or no `minimum_os_source`")
        return false
    }
}

/// Conditions on Android devices.
public struct AndroidConditionsConfiguration: Equatable, ConfigurationSection {
    @Setting(key: "minimum_os", SystemVersion.kind, "The lowest system version.")
    public var minimumSystem: SystemVersion?
    @Setting(.integer(0...Int(Int32.max)), unit: "of the app", "The lowest version code.")
    public var minimumAppVersion: Int?
    @Setting(AppConfiguration.PatchLevel.kind, "The lowest security patch level of the system.")
    public var minimumPatchLevel: AppConfiguration.PatchLevel?
    @Setting(PatchDay.kind, "The lowest security patch level of the vendor's image.")
    public var minimumVendorPatchLevel: PatchDay?
    @Setting(PatchDay.kind, "The lowest security patch level of the boot image.")
    public var minimumBootPatchLevel: PatchDay?
    @Setting(.choice, "Where the phone must keep its hardware key, at least.")
    public var keyProtection: AppConfiguration.SecurityLevel?
    @Setting(.choice, "Whether the certificate's key must be attested as well.")
    public var certificateKey: AttestedKey?
    @Setting(.choice, "The software that the phone must have been started with.")
    public var boot: VerifiedBoot?
    @Setting(.choice, "The state of the bootloader.")
    public var bootloader: LockedBootloader?
    @Setting(.choice, "The verdict of Google Play that the phone must have.")
    public var playIntegrity: PlayIntegrityConfiguration.DeviceVerdict?
    @Setting(
        .wholeSeconds(.seconds(60) ... .seconds(86_400 * 3_650)), unit: "since the app asked Google Play",
        "The maximum age of that verdict.")
    public var playIntegrityAge: Duration?
    @Setting(.choice, "Whether the app must say that the phone has a screen lock, which nothing proves.")
    public var deviceSecure: ClaimedLock?

    static let section = Section("policies.android", of: Self.self)

    public enum AttestedKey: String, CaseIterable, Sendable {
        case attested
    }

    public enum VerifiedBoot: String, CaseIterable, Sendable {
        case verified
    }

    public enum ClaimedLock: String, CaseIterable, Sendable {
        case claimed
    }

    public enum LockedBootloader: String, CaseIterable, Sendable {
        case locked
    }

    /// A day of Android's security updates.
    public struct PatchDay: Hashable, Sendable {
        /// Year, month and day, such as 20260105.
        public let number: Int
    }

    func check(_ item: Item, _ reading: Reading) -> Bool { Conditions.check(item, reading) }
}

/// A value that is on or off.
public enum Switch: String, CaseIterable, Sendable {
    case on = "true"
    case off = "false"
}

private enum Conditions {
    /// Refuses a section without conditions, which its author would take for a protection.
    static func check(_ item: Item, _ reading: Reading) -> Bool {
        guard case .mapping(let entries) = item.content, entries.isEmpty else { return true }
        reading.refuse(
            item.place, "the section has no conditions", expected: "at least one condition, or no such section")
        return false
    }
}

extension AndroidConditionsConfiguration.PatchDay {
    fileprivate static var kind: Kind<Self> {
        .text("year, month and day, such as 2026-01-05", matching: "^20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]$") {
            text throws(InvalidValue) in
            let parts = text.split(separator: "-", omittingEmptySubsequences: false)
            guard parts.map(\.utf8.count) == [4, 2, 2], let year = Decimal.parse(parts[0]), let month = Int(parts[1]),
                let day = Int(parts[2]), (2000...2099).contains(year), (1...12).contains(month), (1...31).contains(day)
            else { throw InvalidValue("\(Printable.quoted(text)) is not a day") }
            return Self(number: (year * 100 + month) * 100 + day)
        }
    }
}

/// The notation of `CFBundleVersion` in conditions, which compare as many numbers as are kept of each device.
enum AppleAppVersion {
    static var kind: Kind<String> {
        .text(
            "a CFBundleVersion of one to three numbers: the first at most 4294967295, the others at most 65535",
            shape: .version
        ) { text throws(InvalidValue) in
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            let isVersion = parts.enumerated().allSatisfy { place, part in
                (1...10).contains(part.utf8.count)
                    && part.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
                    && UInt64(part).map { $0 <= (place == 0 ? 0xffff_ffff : 0xffff) } ?? false
            }
            guard isVersion, (1...3).contains(parts.count) else {
                throw InvalidValue("\(Printable.quoted(text)) is not a bundle version that can be compared")
            }
            return text
        }
    }
}

/// Rules between policies, decision points, routes and apps. They read the file as written, so that a policy with another
/// mistake still counts.
enum PolicyReferences {
    static func check(_ root: Item, _ reading: Reading) {
        let policies = root["policies"]?.entries ?? []
        let points = root["decision_points"]?.entries ?? []
        checkRoutes(root, policies, reading)
        for policy in policies {
            check(policy.value["pdp"], among: points, "decision point", reading)
            checkSimulation(of: policy, policies, reading)
            checkPlatforms(of: policy, root, policies, reading)
        }
        let stripped = (root["strip_headers"]?.elements ?? []).compactMap { $0.text?.lowercased() }
        for header in points.flatMap({ $0.value["headers"]?.elements ?? [] })
        where stripped.contains(header.text?.lowercased() ?? "") {
            reading.refuse(
                header.place, "\(header.summary) is among the `strip_headers`: what a client says there is not believed"
            )
        }
        warnOfUnused(
            points, but: policies.compactMap { $0.value["pdp"]?.text }, "no policy uses the decision point", reading)
        let named = (root["routes"]?.elements ?? []).compactMap { $0["policy"]?.text }
        warnOfUnused(
            policies, but: named + policies.compactMap { $0.value["simulation"]?.text }, "no route uses the policy",
            reading)
    }

    /// An unknown name makes another entry look unused; reporting both would only distract.
    private static func warnOfUnused(_ entries: [Item.Entry], but used: [String], _ message: String, _ reading: Reading)
    {
        guard Set(used).isSubset(of: entries.map(\.key)) else { return }
        for entry in entries where !used.contains(entry.key) && ConfiguredName.isName(entry.key) {
            reading.warn(entry.keyPlace, "\(message) \(Printable.quoted(entry.key))")
        }
    }

    private static func check(_ item: Item?, among entries: [Item.Entry], _ what: String, _ reading: Reading) {
        guard let item, let name = item.text, !entries.contains(where: { $0.key == name }) else { return }
        let names = entries.map(\.key)
        reading.refuse(
            item.place, "there is no \(what) \(Printable.quoted(name))",
            expected: names.isEmpty
                ? "the name of a \(what)" : "one of: \(names.prefix(20).joined(separator: ", "))",
            suggestion: Spelling.nearest(to: name, among: names))
    }

    /// A policy needs a level at which there is something to judge, and a registry, which knows the devices and makes
    /// the pseudonyms.
    private static func checkRoutes(_ root: Item, _ policies: [Item.Entry], _ reading: Reading) {
        for route in root["routes"]?.elements ?? [] {
            guard let item = route["policy"], let name = item.text else { continue }
            guard root["registry"] != nil else {
                reading.refuse(
                    item.place, "`policy` needs the section `registry`, which knows devices and makes pseudonyms",
                    expected: "a section `registry`, or no `policy`")
                continue
            }
            check(item, among: policies, "policy", reading)
            let level = route["require"].map { $0.text.flatMap { RouteConfiguration.Requirement(rawValue: $0) } }
            guard let require = level ?? .standard, let policy = policies.first(where: { $0.key == name })?.value,
                require < .device
            else { continue }
            if require < .certificate {
                reading.refuse(
                    item.place,
                    "`policy` has no effect with `require: \(require.rawValue)`: there may be nobody to judge",
                    expected: "`require: certificate` or more, or no `policy`")
            } else if let condition = condition(in: policy) ?? simulated(by: policy, policies).flatMap(condition) {
                reading.refuse(
                    item.place,
                    "the policy \(Printable.quoted(name)) has conditions on devices (`\(condition)`), and this route requires none",
                    expected: "`require: device` or `request-proof`, or a policy with `pdp` alone")
            }
        }
    }

    private static func simulated(by policy: Item, _ policies: [Item.Entry]) -> Item? {
        policy["simulation"]?.text.flatMap { name in policies.first { $0.key == name }?.value }
    }

    private static func condition(in policy: Item) -> String? {
        ["ios", "android", "attested_within", "admission"].first { policy[$0] != nil }
    }

    private static func checkSimulation(of policy: Item.Entry, _ policies: [Item.Entry], _ reading: Reading) {
        guard let item = policy.value["simulation"], let name = item.text else { return }
        guard name != policy.key else {
            return reading.refuse(
                item.place, "the policy \(Printable.quoted(name)) would simulate itself",
                expected: "another policy, or `simulate: true`")
        }
        check(item, among: policies, "policy", reading)
        guard let other = simulated(by: policy.value, policies), other["simulation"] != nil else { return }
        reading.refuse(
            item.place,
            "the policy \(Printable.quoted(name)) has a `simulation` of its own, which would not be evaluated",
            expected: "a policy without `simulation`")
    }

    /// Refuses conditions for a system that no device of the policy's routes has.
    private static func checkPlatforms(
        of policy: Item.Entry, _ root: Item, _ policies: [Item.Entry], _ reading: Reading
    ) {
        let names = Set(
            [policy.key] + policies.filter { $0.value["simulation"]?.text == policy.key }.map(\.key))
        let routes = (root["routes"]?.elements ?? []).filter { names.contains($0["policy"]?.text ?? "") }
        let all = (root["apps"]?.elements ?? []).compactMap { $0["id"]?.text }
        guard !routes.isEmpty, !all.isEmpty else { return }
        let apps = routes.flatMap { $0["apps"]?.elements.compactMap(\.text) ?? all }.compactMap { AppID($0) }
        guard !apps.isEmpty else { return }
        for (key, isAndroid, system) in [("ios", false, "Apple's systems"), ("android", true, "Android")] {
            guard let section = policy.value[key] else { continue }
            guard !apps.contains(where: { $0.isAndroid == isAndroid }) else { continue }
            reading.refuse(
                section.place, "no app of the policy's routes runs on \(system)",
                expected: "an app for \(system) among the `apps` of a route, or no `\(key)`")
        }
    }
}
