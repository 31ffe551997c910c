public import Cryptography
internal import Foundation
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

/// Devices to be registered, as a file lists them: JSON lines, each a device, as `attestgate-load --prepare` writes them.
///
/// A line is `{"app_id", "public_key", "certificate_key"}` and, if it is not iOS, `"platform"`; the keys as
/// `DeviceKey.init(base64:)` takes them. No line may be empty, so that the first device stands in line 1 and so on.
public struct RegistrationList {
    /// Those of good lines.
    public private(set) var registrations: [DeviceRegistration] = []
    /// What is wrong, in the order of the lines. The list is to be used only if nothing is.
    public private(set) var faults: [Fault] = []
    /// Lines read so far.
    public private(set) var lines = 0

    public struct Fault: Equatable, Sendable {
        /// The first one is 1.
        public let line: Int
        /// For people.
        public let reason: String
    }

    /// The longest line in bytes; one with both keys as SubjectPublicKeyInfo and the longest app id has some 500.
    public static let lineLimit = 2_048
    /// The most lines: some 500 bytes of memory each.
    public static let limit = 1_000_000

    private let environments: [AppID: AttestationEnvironment]
    private let library: LibraryContext
    /// The line of each key so far.
    private var hardwareKeys: [KeyID: Int] = [:]
    private var certificateKeys: [KeyID: Int] = [:]

    /// - Parameter environments: the apps that are configured, and for what.
    public init(environments: [AppID: AttestationEnvironment], _ library: LibraryContext) {
        self.environments = environments
        self.library = library
    }

    /// Reads the next line. - Parameter text: without its end.
    public mutating func append(line text: some Collection<UInt8>) {
        lines += 1
        guard text.count <= Self.lineLimit else { return refuse("The line is longer than \(Self.lineLimit) bytes.") }
        guard lines <= Self.limit else { return refuse("The list has more than \(Self.limit) lines.") }
        do throws(AdministrationFault) {
            let registration = try DeviceRegistration(line: Array(text), environments: environments, library)
            if let line = hardwareKeys.updateValue(lines, forKey: registration.publicKey.id) {
                return refuse("The hardware key is already in line \(line).")
            }
            if let line = certificateKeys.updateValue(lines, forKey: registration.certificateKey.id) {
                return refuse("The certificate key is already in line \(line).")
            }
            registrations.append(registration)
        } catch {
            refuse(error.description)
        }
    }

    private mutating func refuse(_ reason: String) {
        faults.append(Fault(line: lines, reason: reason))
    }
}

/// A device's P-256 public key: a point that lies on the curve, and its fingerprint.
public struct DeviceKey: Equatable, Sendable {
    public let point: PublicPoint
    public let id: KeyID

    /// - Parameter bytes: the uncompressed point, 65 bytes.
    public init(point bytes: [UInt8], _ library: LibraryContext) throws(DeviceKeyFault) {
        guard let point = PublicPoint(bytes) else { throw .noKey }
        do {
            _ = try P256VerificationKey(point: bytes.span, library)
            let digest = try library.sha256(of: bytes.span)
            guard let id = KeyID(digest: digest.span) else { throw DeviceKeyFault.noKey }
            self.point = point
            self.id = id
        } catch {
            throw .offCurve
        }
    }

    /// - Parameter text: base64 of the point, or of a SubjectPublicKeyInfo in DER that names the curve and has the point
    ///   uncompressed (RFC 5480 section 2), as `SecKey`, CryptoKit and OpenSSL write it.
    public init(base64 text: String, _ library: LibraryContext) throws(DeviceKeyFault) {
        // Encoded again, because decoders take spellings that no encoder makes.
        guard let data = Data(base64Encoded: text), data.base64EncodedString() == text else { throw .noBase64 }
        let bytes = Array(data)
        let isDER = bytes.count == Self.derPrefix.count + 65 && bytes.starts(with: Self.derPrefix)
        try self.init(point: isDER ? Array(bytes.dropFirst(Self.derPrefix.count)) : bytes, library)
    }

    /// - Parameter pem: a public key, a private key, whose public half is meant, or a certificate, the first of several.
    ///   If there are several of these, they must be of one key.
    public init(pem: [UInt8], _ library: LibraryContext) throws(DeviceKeyFault) {
        let keys = [
            try? PublicKey(pem: pem, library), try? PrivateKey(pem: pem, library).publicKey,
            try? Certificate.all(inPEM: pem, library).first?.publicKey,
        ].compactMap { $0 }
        guard let key = keys.first else { throw .noPEM }
        guard key.isP256, let point = key.uncompressedPoint else { throw .offCurve }
        guard keys.allSatisfy({ $0.isP256 && $0.uncompressedPoint == point }) else { throw .severalKeys }
        try self.init(point: point, library)
    }

    /// SEQUENCE { SEQUENCE { id-ecPublicKey, secp256r1 }, BIT STRING of 65 bytes }, up to the point.
    private static let derPrefix: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce,
        0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    /// Base64 of the 65 bytes.
    public var base64: String { Data(point.bytes).base64EncodedString() }
}

/// Why something is no key of a device.
public enum DeviceKeyFault: Error, Equatable, Sendable {
    case noBase64
    case noPEM
    case noKey
    case offCurve
    case severalKeys
}

extension DeviceKeyFault: CustomStringConvertible {
    /// For people.
    public var description: String {
        switch self {
        case .noBase64: "is not base64"
        case .noPEM: "contains no PEM public key, unencrypted private key or certificate"
        case .noKey: "is neither a 65-byte uncompressed point nor a P-256 SubjectPublicKeyInfo with one"
        case .offCurve: "is not on P-256"
        case .severalKeys: "contains several keys"
        }
    }
}
