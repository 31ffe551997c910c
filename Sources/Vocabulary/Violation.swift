/// What a device lacks for a policy. Each case is one row of the table in `docs/denials.md`, from which an app tells its
/// user what to do.
public enum Violation: UInt8, CaseIterable, Sendable {
    case systemOutdated
    case patchLevelOutdated
    case appOutdated
    case riskTooHigh
    case distributionRefused
    case keyProtectionLow
    case certificateKeyUnattested
    case bootUnverified
    case bootloaderUnlocked
    case integrityLow
    case integrityTooOld
    case screenLockMissing
    case attestationTooOld
    case admissionLow

    /// One row of the table.
    public struct Row: Sendable {
        /// The constant code in the member `violations`. It is never renamed.
        public let code: StaticString
        /// What does not hold, or is not known of the device.
        public let meaning: StaticString
        /// What an app can tell its user.
        public let advice: StaticString
    }

    public var row: Row {
        switch self {
        case .systemOutdated:
            Row(
                code: "os_outdated", meaning: "The system version is below the minimum.",
                advice: "Update the phone's system.")
        case .patchLevelOutdated:
            Row(
                code: "patch_level_outdated", meaning: "A security patch level is below the minimum.",
                advice: "Install the phone's security updates.")
        case .appOutdated:
            Row(code: "app_outdated", meaning: "The app's version is below the minimum.", advice: "Update the app.")
        case .riskTooHigh:
            Row(
                code: "risk_too_high", meaning: "Apple counts too many recently attested keys on the phone.",
                advice: "Wait some weeks, or use another phone.")
        case .distributionRefused:
            Row(
                code: "distribution_refused", meaning: "The app was not installed in an admitted way.",
                advice: "Install the app from the store.")
        case .keyProtectionLow:
            Row(
                code: "key_protection_low", meaning: "The phone's hardware protects the key less than required.",
                advice: "Use a phone with a secure element.")
        case .certificateKeyUnattested:
            Row(
                code: "certificate_key_unattested", meaning: "The key of the client certificate is not attested.",
                advice: "Register the phone again.")
        case .bootUnverified:
            Row(
                code: "boot_unverified", meaning: "The phone was not started with its maker's software.",
                advice: "Restore the maker's software.")
        case .bootloaderUnlocked:
            Row(code: "bootloader_unlocked", meaning: "The bootloader is not locked.", advice: "Lock the bootloader.")
        case .integrityLow:
            Row(
                code: "integrity_low", meaning: "Google Play's verdict on the phone is below the required one.",
                advice: "Use a phone that Google has certified, without changes to its system.")
        case .integrityTooOld:
            Row(
                code: "integrity_too_old", meaning: "Google Play's verdict is too old.",
                advice: "Renew the phone's registration.")
        case .screenLockMissing:
            Row(
                code: "screen_lock_missing", meaning: "The app does not say that the phone has a screen lock.",
                advice: "Set a screen lock.")
        case .attestationTooOld:
            Row(
                code: "attestation_too_old", meaning: "The attestation of the phone is too old.",
                advice: "Register the phone again.")
        case .admissionLow:
            Row(
                code: "admission_low", meaning: "The device was not admitted in a required way.",
                advice: "Register the phone with your account.")
        }
    }
}

/// A set of violations, in the order of their table.
public struct Violations: OptionSet, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    public init(_ violation: Violation) {
        rawValue = 1 << UInt32(violation.rawValue)
    }

    public func contains(_ violation: Violation) -> Bool { contains(Violations(violation)) }

    public var list: [Violation] { Violation.allCases.filter(contains) }
}
