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

    var identity: DeviceIdentity {
        DeviceIdentity(
            app: app, platform: platform, environment: environment, hardwareKey: publicKey.id, point: publicKey.point)
    }

    var command: RegistryCommand { .register(identity, binding: certificateKey.id) }
}

// As JSON: app_id, platform, environment, public_key, certificate_key; the keys as `DeviceKey.init(base64:)` takes them.
extension DeviceRegistration {
    init(json text: [UInt8], _ library: LibraryContext) throws(AdministrationFault) {
        let members = try Members(text, ["app_id", "platform", "environment", "public_key", "certificate_key"])
        app = try members.app()
        platform = try members.value("platform", Platform.names, Platform.init)
        environment = try members.value("environment", AttestationEnvironment.names, AttestationEnvironment.init)
        publicKey = try members.key("public_key", library)
        certificateKey = try members.key("certificate_key", library)
    }

    /// One line of a list: iOS unless `platform` says otherwise, and the environment is the one the app is configured for.
    ///
    /// - Parameter environments: of the apps whose devices may be registered.
    init(
        line text: [UInt8], environments: [AppID: AttestationEnvironment], _ library: LibraryContext
    ) throws(AdministrationFault) {
        let members = try Members(text, ["app_id", "platform", "public_key", "certificate_key"])
        app = try members.app()
        guard let configured = environments[app] else {
            throw .badRequest("The app '\(app)' is not configured, so the gateway would refuse its devices.")
        }
        environment = configured
        platform =
            members.has("platform") ? try members.value("platform", Platform.names, Platform.init) : .iOS
        publicKey = try members.key("public_key", library)
        certificateKey = try members.key("certificate_key", library)
    }

    private struct Members {
        private let texts: [String: String]

        init(_ text: [UInt8], _ admitted: [String]) throws(AdministrationFault) {
            texts = try JSONText.members(of: text, admitted: admitted)
        }

        func has(_ name: String) -> Bool { texts[name] != nil }

        func app() throws(AdministrationFault) -> AppID {
            try value("app_id", "an app id: ten letters and digits, a full stop, the bundle id", AppID.init)
        }

        func key(_ name: String, _ library: LibraryContext) throws(AdministrationFault) -> DeviceKey {
            try value(name, "a key") { try DeviceKey(base64: $0, library) }
        }

        func value<Value>(
            _ name: String, _ expected: String, _ parse: (String) throws -> Value?
        ) throws(AdministrationFault) -> Value {
            guard let text = texts[name] else { throw .badRequest("The member '\(name)' is missing.") }
            do {
                if let value = try parse(text) { return value }
            } catch {
                throw .badRequest("The member '\(name)' \(error).")
            }
            throw .badRequest("The member '\(name)' must be \(expected).")
        }
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
