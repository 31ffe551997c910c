internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Registry
internal import Vocabulary

struct DeviceAdd: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Register a device manually, with the certificate key it is bound to.",
        discussion: """
            Registers the hardware key without an attestation: verify one yourself first. The counter starts at 0. \
            Creates the registry if there is none.
            """)

    @OptionGroup var access: DeviceAccess

    @Option(
        help: ArgumentHelp("The app id; the conf file must contain it.", valueName: "ID"),
        transform: { text in
            guard let app = AppID(text) else {
                throw ValidationError("'\(text)' is not an app id: TEAMID.bundle or android:PACKAGE")
            }
            return app
        })
    var appId: AppID

    @Option(
        help: ArgumentHelp(
            "The hardware key: base64 of its 65-byte point, or of its SubjectPublicKeyInfo.", valueName: "B64"))
    var publicKey: String

    @Option(
        help: ArgumentHelp(
            """
            The key of the device's TLS certificate: base64 as above, or a PEM file with the certificate, the public \
            key or the private key.
            """, valueName: "B64|PEM"), completion: .file())
    var certificateKey: String

    @Option(
        help: ArgumentHelp("\(Platform.names). (default: ios, or android as the app id says)", valueName: "NAME"),
        transform: Self.choice)
    var platform: Platform?

    @Option(
        help: ArgumentHelp(
            "\(AttestationEnvironment.names). (default: the app's)", valueName: "NAME"), transform: Self.choice)
    var environment: AttestationEnvironment?

    func run() throws {
        let file = try access.file.read()
        guard let app = file.apps.first(where: { $0.id == appId }) else {
            throw Failure(
                "\(access.file.config): the app `\(appId)` is not configured, so the gateway would refuse its devices")
        }
        let configured = app.environments.map { AttestationEnvironment($0) }
        let environment = environment ?? configured[0]
        guard configured.contains(environment) else {
            throw Failure(
                "\(access.file.config): the app `\(appId)` is configured for the environment "
                    + configured.map { "`\($0.rawValue)`" }.joined(separator: " and "))
        }
        let platform = platform ?? .standard(for: appId)
        guard platform.runs(appId) else {
            throw Failure("the platform \(platform.rawValue) is not that of the app `\(appId)`: omit --platform")
        }
        let library = try LibraryContext()
        try access.file.prepareSecret()
        try access.perform(
            .add(
                DeviceRegistration(
                    app: appId, platform: platform, environment: environment,
                    publicKey: try Self.key(publicKey, option: "--public-key", library),
                    certificateKey: try Self.certificateKey(certificateKey, library))))
    }

    private static func key(_ text: String, option: String, _ library: LibraryContext) throws -> DeviceKey {
        do {
            return try DeviceKey(base64: text, library)
        } catch {
            throw Failure("\(option) \(error)")
        }
    }

    private static func certificateKey(_ text: String, _ library: LibraryContext) throws -> DeviceKey {
        guard let file = FileHandle(forReadingAtPath: text) else {
            return try key(text, option: "--certificate-key is not a readable file, and", library)
        }
        do {
            return try DeviceKey(pem: Array(try file.read(upToCount: pemLimit) ?? Data()), library)
        } catch {
            throw Failure("\(text) \((error as? DeviceKeyFault)?.description ?? "cannot be read")")
        }
    }

    /// Size limit in bytes, far more than a chain of certificates needs.
    private static let pemLimit = 256 * 1024

    private static func choice<Value: RawRepresentable & CaseIterable>(
        _ text: String
    ) throws -> Value where Value.RawValue == String {
        guard let value = Value(rawValue: text) else { throw ValidationError("'\(text)' is not one of \(Value.names)") }
        return value
    }
}
