public import Registry

/// Conditions in words, for `attestgate policy explain`.
extension Condition {
    /// The fact that it is about.
    public var fact: PostureFactName {
        switch self {
        case .minimumSystem, .minimumClaimedSystem: .osVersion
        case .minimumApp: .appVersion
        case .maximumRisk: .risk
        case .distribution: .distribution
        case .keyProtection: .keyProtection
        case .certificateKeyAttested: .certificateKeyAttested
        case .boot: .boot
        case .bootloaderLocked: .bootloaderLocked
        case .minimumPatchLevel: .patchLevel
        case .minimumVendorPatchLevel: .vendorPatchLevel
        case .minimumBootPatchLevel: .bootPatchLevel
        case .integrity: .playIntegrity
        case .integrityWithin: .playIntegrityAt
        case .attestedWithin: .attestedAt
        case .admission: .admission
        case .claimedDeviceSecure: .claimedDeviceSecure
        }
    }

    /// The fact that takes its place while that is not known.
    public var substitute: PostureFactName? {
        if case .minimumClaimedSystem = self { .claimedSystem } else { nil }
    }

    /// What the fact must be.
    public var requirement: String {
        switch self {
        case .minimumSystem(let version), .minimumClaimedSystem(let version): "\(version) or later"
        case .minimumApp(let version): "\(version) or later"
        case .maximumRisk(let risk): "at most \(risk)"
        case .distribution(let admitted): Self.names(ofDistributions: admitted)
        case .keyProtection(.strongBox): "strongbox"
        case .keyProtection(let least): "\(least.rawValue) or better"
        case .certificateKeyAttested: "attested"
        case .boot(let state): state.rawValue
        case .bootloaderLocked: "locked"
        case .minimumPatchLevel(let level), .minimumVendorPatchLevel(let level), .minimumBootPatchLevel(let level):
            "\(Posture.date(ofPatchLevel: level)) or later"
        case .integrity(let level): level.names.joined(separator: ", ")
        case .integrityWithin(let age), .attestedWithin(let age): "within \(Self.duration(age))"
        case .admission(let kinds): kinds.map(\.rawValue).joined(separator: " or ")
        case .claimedDeviceSecure: "yes"
        }
    }

    private static func names(ofDistributions admitted: UInt64) -> String {
        (0..<64).filter { admitted >> $0 & 1 == 1 }.map { Posture.name(ofDistribution: UInt8($0)) }
            .joined(separator: " or ")
    }

    /// Returns the largest unit of the conf file that divides a number of seconds.
    private static func duration(_ seconds: Int64) -> String {
        let units: [(Int64, String)] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")]
        guard let (size, unit) = units.first(where: { seconds % $0.0 == 0 }) else { return "\(seconds)s" }
        return "\(seconds / size)\(unit)"
    }
}
