package import Encoding

/// A fact that is known of a device, for operators and policy decision points.
public struct PostureFact: Equatable, Sendable {
    public let name: PostureFactName
    public let value: PostureValue
    public let source: FactSource

    init(_ name: PostureFactName, _ value: PostureValue, _ source: FactSource = .attested) {
        self.name = name
        self.value = value
        self.source = source
    }
}

/// The names of facts, in the order of `Posture.facts`. They are never renamed.
public enum PostureFactName: String, CaseIterable, Sendable {
    case platform
    case environment
    case osVersion = "os_version"
    /// Year and month, such as `2026-01`.
    case patchLevel = "patch_level"
    /// Year, month and day, such as `2026-01-05`.
    case vendorPatchLevel = "vendor_patch_level"
    /// Year, month and day.
    case bootPatchLevel = "boot_patch_level"
    case appVersion = "app_version"
    /// The name of Apple's validation category as in conf files, or the number of an unknown one.
    case distribution
    case keyProtection = "key_protection"
    case certificateKeyAttested = "certificate_key_attested"
    case boot
    case bootloaderLocked = "bootloader_locked"
    case risk
    case playIntegrity = "play_integrity"
    case playIntegrityAt = "play_integrity_at"
    case enrolledAt = "enrolled_at"
    case attestedAt = "attested_at"
    case boundAt = "bound_at"
    case admission
    case claimedSystem = "claimed_os_version"
    /// Whether the phone has a screen lock.
    case claimedDeviceSecure = "claimed_device_secure"
}

public enum PostureValue: Equatable, Sendable {
    case text(String)
    case number(Int64)
    case flag(Bool)
    case texts([String])
    /// In seconds since 1970-01-01T00:00:00Z. JSON has it in RFC 3339, UTC.
    case time(Int64)
}

public enum FactSource: String, CaseIterable, Sendable {
    /// Apple or Google vouches for it.
    case attested
    /// The registry itself knows it.
    case registry
    /// The app says it.
    case claimed
}

extension Posture {
    /// The known facts, in the order of `PostureFactName`.
    public var facts: [PostureFact] {
        var facts = [
            PostureFact(.platform, .text(platform.rawValue)), PostureFact(.environment, .text(environment.rawValue)),
        ]
        func add(_ name: PostureFactName, _ value: PostureValue?, _ source: FactSource = .attested) {
            if let value { facts.append(PostureFact(name, value, source)) }
        }
        add(.osVersion, system.map { .text($0.description) })
        add(.patchLevel, patchLevel.map { .text(Self.date(ofPatchLevel: $0)) })
        add(.vendorPatchLevel, vendorPatchLevel.map { .text(Self.date(ofPatchLevel: $0)) })
        add(.bootPatchLevel, bootPatchLevel.map { .text(Self.date(ofPatchLevel: $0)) })
        add(.appVersion, app.map { .text($0.description) })
        add(.distribution, distribution.map { .text(Self.name(ofDistribution: $0)) })
        add(.keyProtection, keyProtection.map { .text($0.rawValue) })
        add(.certificateKeyAttested, isCertificateKeyAttested.map { .flag($0) })
        add(.boot, boot.map { .text($0.rawValue) })
        add(.bootloaderLocked, isBootloaderLocked.map { .flag($0) })
        add(.risk, risk.map { .number(Int64($0)) })
        add(.playIntegrity, integrity.map { .texts($0.names) })
        add(.playIntegrityAt, integrityAt.map { .time($0) })
        add(.enrolledAt, .time(enrolledAt), .registry)
        add(.attestedAt, attestedAt.map { .time($0) }, .registry)
        add(.boundAt, boundAt.map { .time($0) }, .registry)
        add(.admission, .text(admission.rawValue), .registry)
        add(.claimedSystem, claims.system.map { .text($0.description) }, .claimed)
        add(.claimedDeviceSecure, claims.isDeviceSecure.map { .flag($0) }, .claimed)
        return facts
    }

    /// Writes the facts as members of an object in JSON.
    package func write(to object: inout JSONWriter) {
        for fact in facts {
            let name = fact.name.rawValue
            switch fact.value {
            case .text(let text): object.member(name, text)
            case .number(let number): object.member(name, number)
            case .flag(let flag): object.member(name, flag)
            case .texts(let texts): object.member(name, texts)
            case .time(let seconds): object.member(name, CalendarTime(seconds: seconds).timestamp + "Z")
            }
        }
    }

    /// Returns a patch level with hyphens: year and month, and the day if there is one. Other numbers are unchanged.
    package static func date(ofPatchLevel level: UInt32) -> String {
        let digits = "\(level)"
        guard digits.count == 6 || digits.count == 8 else { return digits }
        let day = digits.count == 8 ? "-\(digits.suffix(2))" : ""
        return "\(digits.prefix(4))-\(digits.dropFirst(4).prefix(2))\(day)"
    }

    /// Returns the name of Apple's validation category as in conf files.
    package static func name(ofDistribution number: UInt8) -> String {
        switch number {
        case 1: "operating-system"
        case 2: "testflight"
        case 3: "development"
        case 4: "app-store"
        case 5: "enterprise"
        case 6: "developer-id"
        case 10: "other"
        default: "\(number)"
        }
    }
}
