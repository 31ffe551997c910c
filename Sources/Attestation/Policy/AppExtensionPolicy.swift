internal import Cryptography
public import Vocabulary

/// What is demanded of the extensions that iOS 27 and macOS 27 add to authenticator data. Earlier systems have none, so
/// every demand says what absence means.
public struct AppExtensionPolicy: Equatable, Sendable {
    /// What an absent extension means.
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

    /// The lowest version of the system that an attestation may state. It is no extension of authenticator data, but an
    /// attestation that states none is judged alike.
    public struct MinimumSystem: Equatable, Sendable {
        public var version: SystemVersion
        public var absence: Absence

        public init(_ version: SystemVersion, absence: Absence) {
            self.version = version
            self.absence = absence
        }

        /// Why the system version is refused, or nil.
        ///
        /// - Parameter version: the one that the device's attestation states; nil if it states none.
        public func refusal(of version: SystemVersion?) -> ExtensionRefusal? {
            guard let version else { return absence == .admitted ? nil : .absent }
            return version < self.version ? .notAdmitted : nil
        }
    }

    /// Nil: every category.
    public var categories: Categories?
    /// Nil: every version.
    public var minimumVersion: MinimumVersion?
    /// Nil: every version.
    public var minimumSystem: MinimumSystem?

    public init(
        categories: Categories? = nil, minimumVersion: MinimumVersion? = nil, minimumSystem: MinimumSystem? = nil
    ) {
        self.categories = categories
        self.minimumVersion = minimumVersion
        self.minimumSystem = minimumSystem
    }

    /// Why the validation category is refused, or nil.
    public func refusal(of category: ValidationCategory?) -> ExtensionRefusal? {
        guard let categories else { return nil }
        guard let category else { return categories.absence == .admitted ? nil : .absent }
        return categories.admitted.contains(category) ? nil : .notAdmitted
    }

    /// Why the bundle version is refused, or nil.
    ///
    /// - Parameter text: the UTF-8 of `CFBundleVersion`.
    public func refusal(ofBundleVersion text: Span<UInt8>?) -> ExtensionRefusal? {
        guard let minimumVersion else { return nil }
        guard let text else { return minimumVersion.absence == .admitted ? nil : .absent }
        guard let version = BundleVersion(text) else { return .unreadable }
        return version < minimumVersion.version ? .notAdmitted : nil
    }

    /// Why the system version is refused, or nil.
    ///
    /// - Parameter text: as the leaf of the attestation states it.
    public func refusal(ofSystemVersion text: String?) -> ExtensionRefusal? {
        guard let minimumSystem else { return nil }
        guard let text else { return minimumSystem.refusal(of: nil) }
        guard let version = SystemVersion(text) else { return .unreadable }
        return minimumSystem.refusal(of: version)
    }

    /// Judges what an assertion says about the app, once its signature has been verified. Allocates nothing.
    ///
    /// - Parameters:
    ///   - assertion: what the ranges of `extensions` refer to.
    ///   - shown: what the key has shown before. The system that adds an extension adds it for good, so an assertion
    ///     without it was not made by that system, whatever the policy says of absence.
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

/// The extension that an assertion is refused for.
public enum ExtensionFault: Error, Equatable, Sendable {
    case validationCategory(ExtensionRefusal)
    case bundleVersion(ExtensionRefusal)

    /// For the log: nothing of what was received.
    public var reason: String {
        switch self {
        case .validationCategory(let refusal): "the validation category is \(refusal.reason)"
        case .bundleVersion(let refusal): "the bundle version is \(refusal.reason)"
        }
    }
}

/// Why an extension is refused.
public enum ExtensionRefusal: Equatable, Sendable {
    case absent
    case notAdmitted
    /// Of a form that cannot be compared.
    case unreadable
    /// Absent, though the key has shown it before.
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

/// A bundle version (`CFBundleVersion`): integers with full stops between them, compared one by one; what is missing at the
/// end counts as 0, as Apple has it.
///
/// Holds no array: versions are compared for every request.
public struct BundleVersion: Comparable, Sendable {
    /// What the version does not say is 0.
    private var parts: InlineArray<8, UInt64>

    /// Apple writes three at most; more are seen in development.
    private static let partLimit = 8
    private static let digitLimit = 18

    /// - Parameter text: UTF-8. Nil unless it is one to eight runs of digits with single full stops between them.
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
