/// An Android app that may enrol, with its requirements.
public struct AndroidApp: Equatable, Sendable {
    public enum Environment: Equatable, Sendable {
        /// Google's roots.
        case production
        /// Software phones with their own root. Google's roots are then not accepted.
        case simulator
    }

    /// What a phone must have been started with.
    public enum Boot: Equatable, Sendable {
        /// The maker's system, and a locked bootloader.
        case verified
        /// Anything, for tests.
        case any
    }

    /// The package name.
    public var package: String
    public var environment: Environment
    /// SHA-256 of the certificates that may have signed the app; never empty.
    public var signingCertificates: [[UInt8]]
    /// The least level; never `software`.
    public var securityLevel: KeyDescription.SecurityLevel
    public var minimumVersion: UInt64?
    public var boot: Boot
    /// Year and month of the least patch level, as 202601.
    public var minimumPatchLevel: UInt64?
    /// Whether a key of the app's own (`setAttestKeyAlias`) may attest the leaf.
    public var allowsAttestKey: Bool

    public init(
        package: String, environment: Environment = .production, signingCertificates: [[UInt8]],
        securityLevel: KeyDescription.SecurityLevel = .trustedEnvironment, minimumVersion: UInt64? = nil,
        boot: Boot = .verified, minimumPatchLevel: UInt64? = nil, allowsAttestKey: Bool = false
    ) {
        self.package = package
        self.environment = environment
        self.signingCertificates = signingCertificates
        self.securityLevel = securityLevel
        self.minimumVersion = minimumVersion
        self.boot = boot
        self.minimumPatchLevel = minimumPatchLevel
        self.allowsAttestKey = allowsAttestKey
    }

    /// Returns the reason to refuse a phone with these patch levels, or nil.
    ///
    /// - Parameters: Year and month, such as 202601. Those of vendor and boot have a day, except on some phones, and
    ///   older phones do not state them.
    public func patchLevelFault(system: UInt64?, vendor: UInt64?, boot: UInt64?) -> KeyAttestationFault? {
        guard let minimumPatchLevel else { return nil }
        guard let system else { return .patchLevelMissing }
        let levels: [(UInt64?, KeyAttestationFault.PatchComponent)] = [
            (system, .system), (vendor, .vendor), (boot, .boot),
        ]
        for (level, component) in levels {
            guard let level else { continue }
            let month = level >= 10_000_000 ? level / 100 : level
            guard month >= minimumPatchLevel else { return .patchLevelTooOld(component) }
        }
        return nil
    }
}
