internal import Cryptography

/// The environment in which a hardware key was made, according to its attestation's AAGUID.
public enum KeyEnvironment: String, Sendable, CaseIterable {
    /// Apps from the App Store, TestFlight and enterprises.
    case production
    /// Apps signed for development without an entitlement for production: Apple's sandbox.
    case development

    /// Parses an AAGUID.
    ///
    /// - Parameter aaguid: Exactly one of Apple's two values of 16 bytes.
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

/// An app that may enrol, with its requirements.
public struct AttestedApp: Equatable, Sendable {
    public enum Environment: String, Sendable {
        case production
        case development
        /// Software phones with their own root. Apple's root is then not accepted.
        case simulator
    }

    /// Team id, full stop, bundle id. It is compared by its SHA-256.
    public var id: String
    public var environment: Environment
    /// The platforms on which the app may run. Leaf certificates up to iOS 17 state none.
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

/// The platform of an app according to its attestation's leaf certificate: Apple's name of the SDK.
public struct AttestedPlatform: Hashable, Sendable {
    /// The name: at most 32 letters and digits, or `unstated`.
    public let name: String

    private static let nameLimit = 32

    /// Creates a platform.
    ///
    /// - Parameter name: The name in the leaf certificate.
    /// - Returns: nil if the text cannot be a name.
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
    /// The leaf certificate states no platform, as up to iOS 17.
    public static let unstated = AttestedPlatform(known: "unstated")
}
