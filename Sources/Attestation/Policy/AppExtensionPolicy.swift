internal import Cryptography
public import Vocabulary

/// The requirements for the extensions that iOS 27 and macOS 27 add to authenticator data. Earlier systems send none,
/// so each requirement defines the meaning of absence.
public struct AppExtensionPolicy: Equatable, Sendable {
    /// The meaning of an absent extension.
    public enum Absence: Sendable {
        case admitted
        case refused
    }

    public struct Categories: Equatable, Sendable {
        public var admitted: Set<ValidationCategory>
        public var absence: Absence

        public init(_ admitted: Set<ValidationCategory>, absence: Absence) {
            self.admitted = admitted
            self.absence = absence
        }
    }

    public struct MinimumVersion: Equatable, Sendable {
        public var version: BundleVersion
        public var absence: Absence

        public init(_ version: BundleVersion, absence: Absence) {
            self.version = version
            self.absence = absence
        }
    }

    /// The lowest system version that an attestation may state. It is not an extension of authenticator data, but
    /// absence is handled in the same way.
    public struct MinimumSystem: Equatable, Sendable {
        public var version: SystemVersion
        public var absence: Absence

        public init(_ version: SystemVersion, absence: Absence) {
            self.version = version
            self.absence = absence
        }

        /// Returns the reason to refuse the system version, or nil.
        ///
        /// - Parameter version: The version in the device's attestation, or nil if it states none.
        public func refusal(of version: SystemVersion?) -> ExtensionRefusal? {
            guard let version else { return absence == .admitted ? nil : .absent }
            return version < self.version ? .notAdmitted : nil
        }
    }

    /// The permitted categories. Nil permits all.
    public var categories: Categories?
    /// The lowest permitted bundle version. Nil permits all.
    public var minimumVersion: MinimumVersion?
    /// The lowest permitted system version. Nil permits all.
    public var minimumSystem: MinimumSystem?

    public init(
        categories: Categories? = nil, minimumVersion: MinimumVersion? = nil, minimumSystem: MinimumSystem? = nil
    ) {
        self.categories = categories
        self.minimumVersion = minimumVersion
        self.minimumSystem = minimumSystem
    }

    /// Returns the reason to refuse the validation category, or nil.
    public func refusal(of category: ValidationCategory?) -> ExtensionRefusal? {
        guard let categories else { return nil }
        guard let category else { return categories.absence == .admitted ? nil : .absent }
        return categories.admitted.contains(category) ? nil : .notAdmitted
    }

    /// Returns the reason to refuse the bundle version, or nil.
    ///
    /// - Parameter text: The UTF-8 of `CFBundleVersion`.
    public func refusal(ofBundleVersion text: Span<UInt8>?) -> ExtensionRefusal? {
        guard let minimumVersion else { return nil }
        guard let text else { return minimumVersion.absence == .admitted ? nil : .absent }
        guard let version = BundleVersion(text) else { return .unreadable }
        return version < minimumVersion.version ? .notAdmitted : nil
    }

    /// Returns the reason to refuse the system version, or nil.
    ///
    /// - Parameter text: The text in the leaf certificate of the attestation.
    public func refusal(ofSystemVersion text: String?) -> ExtensionRefusal? {
        guard let minimumSystem else { return nil }
        guard let text else { return minimumSystem.refusal(of: nil) }
        guard let version = SystemVersion(text) else { return .unreadable }
        return minimumSystem.refusal(of: version)
    }

    /// Checks the extensions of an assertion whose signature was verified. Allocates nothing.
    ///
    /// - Parameters:
    ///   - assertion: The bytes to which the ranges of `extensions` refer.
    ///   - shown: The extensions that the key has shown before. A system never stops sending an extension, so an
    ///     assertion without it is refused, whatever the policy says about absence.
    public func judge(
        _ extensions: AppExtensions, of assertion: Span<UInt8>, after shown: ShownExtensions
    ) throws(ExtensionFault) {
        let missing = shown.subtracting(extensions.shown)
        if missing.contains(.validationCategory) { throw .validationCategory(.withheld) }
        if missing.contains(.bundleVersion) { throw .bundleVersion(.withheld) }
        if let refusal = self.refusal(of: extensions.validationCategory) { throw .validationCategory(refusal) }
        let refused =
            if let range = extensions.bundleVersion {
                refusal(ofBundleVersion: assertion.extracting(range))
            } else {
                refusal(ofBundleVersion: nil)
            }
        if let refused { throw .bundleVersion(refused) }
    }
}

/// The extension because of which an assertion is refused.
public enum ExtensionFault: Error, Equatable, Sendable {
    case validationCategory(ExtensionRefusal)
    case bundleVersion(ExtensionRefusal)

    /// A description for the log. It contains nothing of what was received.
    public var reason: String {
        switch self {
        case .validationCategory(let refusal): "the validation category is \(refusal.reason)"
        case .bundleVersion(let refusal): "the bundle version is \(refusal.reason)"
        }
    }
}

/// The reason why an extension is refused.
public enum ExtensionRefusal: Equatable, Sendable {
    case absent
    case notAdmitted
    /// The value has a form that cannot be compared.
    case unreadable
    /// The extension is absent, although the key has shown it before.
    case withheld

    var reason: StaticString {
        switch self {
        case .absent: "absent"
        case .notAdmitted: "not admitted"
        case .unreadable: "malformed"
        case .withheld: "absent, but the key has shown it before"
        }
    }
}

/// A bundle version (`CFBundleVersion`): integers separated by full stops. They are compared one by one, and missing
/// ones count as 0, as Apple defines.
///
/// It contains no array, because every request compares versions.
public struct BundleVersion: Comparable, Sendable {
    /// The integers. Those that the text lacks are 0.
    private var parts: InlineArray<8, UInt64>

    /// Limit of integers. Apple writes at most three, but development versions have more.
    private static let partLimit = 8
    private static let digitLimit = 18

    /// Parses a version.
    ///
    /// - Parameter text: UTF-8.
    /// - Returns: nil unless the text is one to eight groups of digits with single full stops between them.
    public init?(_ text: Span<UInt8>) {
        parts = InlineArray(repeating: 0)
        var part = 0
        var value: UInt64 = 0
        var digits = 0
        for index in 0...text.count {
            if index < text.count, text[index] >= UInt8(ascii: "0"), text[index] <= UInt8(ascii: "9") {
                digits += 1
                guard digits <= Self.digitLimit else { return nil }
                value = value * 10 + UInt64(text[index] - UInt8(ascii: "0"))
                continue
            }
            guard digits > 0, index == text.count || text[index] == UInt8(ascii: ".") else { return nil }
            guard part < Self.partLimit else { return nil }
            parts[part] = value
            (part, value, digits) = (part + 1, 0, 0)
        }
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(bytes.span)
    }

    public static func == (left: BundleVersion, right: BundleVersion) -> Bool {
        left.parts.indices.allSatisfy { left.parts[$0] == right.parts[$0] }
    }

    public static func < (left: BundleVersion, right: BundleVersion) -> Bool {
        for index in left.parts.indices where left.parts[index] != right.parts[index] {
            return left.parts[index] < right.parts[index]
        }
        return false
    }
}
