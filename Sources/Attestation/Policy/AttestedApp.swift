internal import Cryptography

/// Where a hardware key was made, as the AAGUID of its attestation says.
public enum KeyEnvironment: String, Sendable, CaseIterable {
    /// Apps from the App Store, TestFlight and enterprises.
    case production
    /// Apps signed for development, unless their entitlement asks for production: Apple's sandbox.
    case development

    /// - Parameter aaguid: must be exactly one of Apple's two, 16 bytes.
    init?(aaguid: Span<UInt8>) {
        if aaguid.spells("appattestdevelop") {
            self = .development
        } else if aaguid.spells("appattest\0\0\0\0\0\0\0") {
            self = .production
        } else {
            return nil
        }
    }
}

/// An app that is admitted, and what is demanded of it.
public struct AttestedApp: Equatable, Sendable {
    public enum Environment: String, Sendable {
        case production
        case development
        /// Phones made of software, with a root of their own; Apple's root is then not admitted.
        case simulator
    }

    /// Team id, full stop, bundle id. Compared by its SHA-256.
    public var id: String
    public var environment: Environment
    /// Where the app may run. Leafs up to iOS 17 do not say.
    public var platforms: Set<AttestedPlatform>
    public var extensions: AppExtensionPolicy
    public var demandsReceipt: Bool

    public init(
        id: String, environment: Environment, platforms: Set<AttestedPlatform> = [.iOS, .unstated],
        extensions: AppExtensionPolicy = AppExtensionPolicy(), demandsReceipt: Bool = false
    ) {
        self.id = id
        self.environment = environment
        self.platforms = platforms
        self.extensions = extensions
        self.demandsReceipt = demandsReceipt
    }

    func admits(_ key: KeyEnvironment) -> Bool {
        switch environment {
        case .production: key == .production
        case .development: key == .development
        case .simulator: true
        }
    }
}

/// The system an app runs on, as the leaf of its attestation says (Apple's name of the platform's SDK).
public struct AttestedPlatform: Hashable, Sendable {
    /// At most `nameLimit` bytes of letters and digits, or `unstated`.
    public let name: String

    static let nameLimit = 32

    /// - Parameter name: as it stands in the leaf; nil where it cannot be such a name.
    public init?(_ name: String) {
        let isName = name.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
        }
        guard isName, (1...Self.nameLimit).contains(name.utf8.count), name != Self.unstated.name else { return nil }
        self.name = name
    }

    private init(known name: String) { self.name = name }

    /// iOS and iPadOS.
    public static let iOS = AttestedPlatform(known: "iphoneos")
    public static let macOS = AttestedPlatform(known: "macosx")
    public static let tvOS = AttestedPlatform(known: "appletvos")
    public static let watchOS = AttestedPlatform(known: "watchos")
    public static let visionOS = AttestedPlatform(known: "xros")
    /// The leaf does not say: so do all up to iOS 17.
    public static let unstated = AttestedPlatform(known: "unstated")
}
