internal import Cryptography

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

    /// Nil: every category.
    public var categories: Categories?
    /// Nil: every version.
    public var minimumVersion: MinimumVersion?

    public init(categories: Categories? = nil, minimumVersion: MinimumVersion? = nil) {
        self.categories = categories
        self.minimumVersion = minimumVersion
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
}

/// Why an extension is refused.
public enum ExtensionRefusal: Equatable, Sendable {
    case absent
    case notAdmitted
    /// Of a form that cannot be compared.
    case unreadable

    var reason: StaticString {
        switch self {
        case .absent: "absent"
        case .notAdmitted: "not admitted"
        case .unreadable: "of a form that cannot be compared"
        }
    }
}

/// A bundle version (`CFBundleVersion`): integers with full stops between them, compared one by one; what is missing at the
/// end counts as 0, as Apple has it.
public struct BundleVersion: Comparable, Sendable {
    private let parts: [UInt64]

    /// Apple writes three at most; more are seen in development.
    private static let partLimit = 8
    private static let digitLimit = 18

    /// - Parameter text: UTF-8. Nil unless it is one to eight runs of digits with single full stops between them.
    public init?(_ text: Span<UInt8>) {
        var parts: [UInt64] = []
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
            parts.append(value)
            guard parts.count <= Self.partLimit else { return nil }
            (value, digits) = (0, 0)
        }
        while let last = parts.last, last == 0 { parts.removeLast() }
        self.parts = parts
    }

    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        self.init(bytes.span)
    }

    public static func < (left: BundleVersion, right: BundleVersion) -> Bool {
        left.parts.lexicographicallyPrecedes(right.parts)
    }
}
