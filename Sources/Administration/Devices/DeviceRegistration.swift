internal import Cryptography
public import Registry
public import Vocabulary

/// A device that an operator registers by hand.
public struct DeviceRegistration: Equatable, Sendable {
    public let app: AppID
    public let platform: Platform
    public let environment: AttestationEnvironment
    public let publicKey: DeviceKey
    /// Of the certificate the device shows; bound to it at once.
    public let certificateKey: DeviceKey

    public init(
        app: AppID, platform: Platform, environment: AttestationEnvironment, publicKey: DeviceKey,
        certificateKey: DeviceKey
    ) {
        self.app = app
        self.platform = platform
        self.environment = environment
        self.publicKey = publicKey
        self.certificateKey = certificateKey
    }

    var command: RegistryCommand {
        .register(
            DeviceIdentity(
                app: app, platform: platform, environment: environment, hardwareKey: publicKey.id,
                point: publicKey.point),
            binding: certificateKey.id)
    }
}

// As JSON: app_id, platform, environment, public_key, certificate_key; the keys as `DeviceKey.init(base64:)` takes them.
extension DeviceRegistration {
    private static let names = ["app_id", "platform", "environment", "public_key", "certificate_key"]

    init(json text: [UInt8], _ library: LibraryContext) throws(AdministrationFault) {
        let members = try JSONText.members(of: text, admitted: Self.names)
        func value<Value>(
            _ name: String, _ expected: String, _ parse: (String) throws -> Value?
        ) throws(AdministrationFault) -> Value {
            guard let text = members[name] else { throw .badRequest("The member '\(name)' is missing.") }
            do {
                if let value = try parse(text) { return value }
            } catch {
                throw .badRequest("The member '\(name)' \(error).")
            }
            throw .badRequest("The member '\(name)' must be \(expected).")
        }
        app = try value("app_id", "an app id: ten letters and digits, a full stop, the bundle id", AppID.init)
        platform = try value("platform", Platform.names, Platform.init)
        environment = try value("environment", AttestationEnvironment.names, AttestationEnvironment.init)
        publicKey = try value("public_key", "a key") { try DeviceKey(base64: $0, library) }
        certificateKey = try value("certificate_key", "a key") { try DeviceKey(base64: $0, library) }
    }

    var json: [UInt8] {
        JSONText.encode([
            "app_id": app.description, "platform": platform.rawValue, "environment": environment.rawValue,
            "public_key": publicKey.base64, "certificate_key": certificateKey.base64,
        ])
    }
}

extension RawRepresentable where Self: CaseIterable, RawValue == String {
    /// All of them, for people: `a, b or c`.
    public static var names: String {
        let names = allCases.map(\.rawValue)
        guard let last = names.last, names.count > 1 else { return names.joined() }
        return "\(names.dropLast().joined(separator: ", ")) or \(last)"
    }
}
