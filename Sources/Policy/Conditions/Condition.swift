public import Registry
public import Vocabulary

/// A condition of a policy on one fact of a device. A fact that is not known fails it.
public enum Condition: Equatable, Sendable {
    case minimumSystem(SystemVersion)
    /// The version that is attested, or else what the app says.
    case minimumClaimedSystem(SystemVersion)
    case minimumApp(AppVersion)
    case maximumRisk(UInt32)
    /// One of Apple's categories, by their numbers: at most 63.
    case distribution(UInt64)
    /// This protection, or a better one of the same system.
    case keyProtection(KeyProtection)
    case certificateKeyAttested
    case boot(AttestedPhone.BootState)
    case bootloaderLocked
    /// Year and month.
    case minimumPatchLevel(UInt32)
    /// Year, month and day.
    case minimumVendorPatchLevel(UInt32)
    /// Year, month and day.
    case minimumBootPatchLevel(UInt32)
    case integrity(IntegrityLevels)
    /// The age of Google Play's verdict, in seconds.
    case integrityWithin(Int64)
    /// The age of the newest attestation, in seconds.
    case attestedWithin(Int64)
    case admission([AdmissionKind])
    /// That the phone has a screen lock, as the app says.
    case claimedDeviceSecure

    /// The verdict of a condition.
    public enum Verdict: String, Sendable {
        case met
        case failed
        case unknown
    }

    /// Whether a proof may state the fact: Apple's assertions show the app's version and category.
    public var isStatedByProof: Bool {
        switch self {
        case .minimumApp, .distribution: true
        default: false
        }
    }

    /// Returns the verdict on a posture.
    ///
    /// - Parameter now: In seconds since 1970-01-01T00:00:00Z.
    public func verdict(on posture: Posture, at now: Int64) -> Verdict {
        switch self {
        case .minimumSystem(let least): Self.verdict(posture.system) { $0 >= least }
        case .minimumClaimedSystem(let least): Self.verdict(posture.system ?? posture.claims.system) { $0 >= least }
        case .minimumApp(let least): Self.verdict(posture.app) { $0 >= least }
        case .maximumRisk(let most): Self.verdict(posture.risk) { $0 <= most }
        case .distribution(let admitted): Self.verdict(posture.distribution) { $0 < 64 && admitted >> $0 & 1 == 1 }
        case .keyProtection(let least): Self.verdict(posture.keyProtection) { $0 == least || $0 == .strongBox }
        case .certificateKeyAttested: Self.verdict(posture.isCertificateKeyAttested) { $0 }
        case .boot(let state): Self.verdict(posture.boot) { $0 == state }
        case .bootloaderLocked: Self.verdict(posture.isBootloaderLocked) { $0 }
        case .minimumPatchLevel(let least): Self.verdict(posture.patchLevel) { Self.month($0) >= least }
        case .minimumVendorPatchLevel(let least): Self.verdict(posture.vendorPatchLevel) { Self.day($0) >= least }
        case .minimumBootPatchLevel(let least): Self.verdict(posture.bootPatchLevel) { Self.day($0) >= least }
        case .integrity(let level): Self.verdict(posture.integrity) { $0.isSuperset(of: level) }
        case .integrityWithin(let age): Self.verdict(posture.integrityAt) { now - $0 <= age }
        case .attestedWithin(let age): Self.verdict(posture.attestedAt) { now - $0 <= age }
        case .admission(let kinds): kinds.contains(posture.admission) ? .met : .failed
        case .claimedDeviceSecure: Self.verdict(posture.claims.isDeviceSecure) { $0 }
        }
    }

    /// Returns a patch level with a day. Some phones state a month alone: that counts as the time before its first day.
    private static func day(_ level: UInt32) -> UInt32 { level < 1_000_000 ? level * 100 : level }

    /// Returns the month of a patch level, which may state a day.
    private static func month(_ level: UInt32) -> UInt32 { level < 1_000_000 ? level : level / 100 }

    private static func verdict<Fact>(_ fact: Fact?, _ isMet: (Fact) -> Bool) -> Verdict {
        fact.map { isMet($0) ? .met : .failed } ?? .unknown
    }

    /// The last second at which a met condition is met, in seconds since 1970. Nil if time does not change it.
    func end(on posture: Posture) -> Int64? {
        switch self {
        case .integrityWithin(let age): posture.integrityAt.map { $0 + age }
        case .attestedWithin(let age): posture.attestedAt.map { $0 + age }
        default: nil
        }
    }

    /// What a device lacks that does not meet the condition.
    public var violation: Violation {
        switch self {
        case .minimumSystem, .minimumClaimedSystem: .systemOutdated
        case .minimumApp: .appOutdated
        case .maximumRisk: .riskTooHigh
        case .distribution: .distributionRefused
        case .keyProtection: .keyProtectionLow
        case .certificateKeyAttested: .certificateKeyUnattested
        case .boot: .bootUnverified
        case .bootloaderLocked: .bootloaderUnlocked
        case .minimumPatchLevel, .minimumVendorPatchLevel, .minimumBootPatchLevel: .patchLevelOutdated
        case .integrity: .integrityLow
        case .integrityWithin: .integrityTooOld
        case .attestedWithin: .attestationTooOld
        case .admission: .admissionLow
        case .claimedDeviceSecure: .screenLockMissing
        }
    }

    /// The key of the conf file.
    public var key: String {
        switch self {
        case .minimumSystem, .minimumClaimedSystem: "minimum_os"
        case .minimumApp: "minimum_app_version"
        case .maximumRisk: "maximum_risk"
        case .distribution: "distribution"
        case .keyProtection: "key_protection"
        case .certificateKeyAttested: "certificate_key"
        case .boot: "boot"
        case .bootloaderLocked: "bootloader"
        case .minimumPatchLevel: "minimum_patch_level"
        case .minimumVendorPatchLevel: "minimum_vendor_patch_level"
        case .minimumBootPatchLevel: "minimum_boot_patch_level"
        case .integrity: "play_integrity"
        case .integrityWithin: "play_integrity_age"
        case .attestedWithin: "attested_within"
        case .admission: "admission"
        case .claimedDeviceSecure: "device_secure"
        }
    }
}
