internal import Attestation

/// What the extensions of authenticator data say, as it is shown.
struct SignedExtensions {
    var validationCategory: ValidationCategory?
    var bundleVersion: String?
    /// Apple's number of the hash function, and the hash.
    var codeDirectoryHash: (type: UInt8, hash: [UInt8])?

    var isPresent: Bool { validationCategory != nil || bundleVersion != nil || codeDirectoryHash != nil }

    /// By Apple's names.
    var json: ReportValue {
        .object(
            [
                bundleVersion.map { ("apple_bundle_version_01", .string($0)) },
                validationCategory.map { ("apple_validation_category_01", .integer(Int64($0.rawValue))) },
                codeDirectoryHash.map { ("apple_cd_hash_hash_01", .string(Base64Text.encode($0.hash))) },
                codeDirectoryHash.map { ("apple_cd_hash_type_01", .integer(Int64($0.type))) },
            ].compactMap { $0 })
    }
}

extension ValidationCategory {
    var text: String {
        switch self {
        case .operatingSystem: "1, part of the system"
        case .testFlight: "2, TestFlight"
        case .development: "3, development"
        case .appStore: "4, App Store"
        case .enterprise: "5, enterprise or ad hoc"
        case .developerID: "6, Developer ID"
        case .other: "10, other"
        default: "\(rawValue)"
        }
    }
}
