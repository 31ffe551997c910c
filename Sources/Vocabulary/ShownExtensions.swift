/// Which of the extensions about the app a hardware key has shown, or an assertion shows. Systems before iOS 27 and macOS 27
/// add none of them; one that does, adds them for good.
public struct ShownExtensions: OptionSet, Hashable, Sendable {
    /// As it is stored.
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// `apple_validation_category_01`.
    public static let validationCategory = ShownExtensions(rawValue: 1)
    /// `apple_bundle_version_01`.
    public static let bundleVersion = ShownExtensions(rawValue: 2)
}
