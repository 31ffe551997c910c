/// How the app came to be trusted by the system it was launched on (Apple: `apple_validation_category_01`; since iOS 27
/// and macOS 27).
///
/// A number rather than an enumeration: Apple may add categories, and it is for a policy to refuse what it does not know.
public struct ValidationCategory: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// An executable of the operating system.
    public static let operatingSystem = ValidationCategory(rawValue: 1)
    public static let testFlight = ValidationCategory(rawValue: 2)
    /// Signed for development.
    public static let development = ValidationCategory(rawValue: 3)
    public static let appStore = ValidationCategory(rawValue: 4)
    /// Enterprise or ad hoc distribution.
    public static let enterprise = ValidationCategory(rawValue: 5)
    public static let developerID = ValidationCategory(rawValue: 6)
    public static let other = ValidationCategory(rawValue: 10)
}
