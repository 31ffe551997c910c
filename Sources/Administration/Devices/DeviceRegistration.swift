public import Cryptography
internal import Encoding
public import Registry
public import Vocabulary

/// A device registered by an operator.
public struct DeviceRegistration: Equatable, Sendable {
    public let app: AppID
    public let platform: Platform
    public let environment: AttestationEnvironment
    public let publicKey: DeviceKey
    /// The key of the device's certificate, which is bound at once.
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

// The JSON form: app_id, platform, environment, public_key and certificate_key. `DeviceKey.init(base64:)` parses the
// keys.
extension DeviceRegistration {
    init(json text: [UInt8], _ library: LibraryContext) throws(AdministrationFault) {
        let members = try Members(text, ["app_id", "platform", "environment", "public_key", "certificate_key"])
        app = try members.app()
        platform = try members.platform(of: app)
        environment = try members.value("environment", AttestationEnvironment.names, AttestationEnvironment.init)
        publicKey = try members.key("public_key", library)
        certificateKey = try members.key("certificate_key", library)
    }

    /// Parses one line of a list. The platform is iOS or Android by default, as the app id says. The environment is
    /// that of the configured app.
    ///
    /// - Parameter environments: The apps whose devices may be registered.
    init(
        line text: [UInt8], environments: [AppID: AttestationEnvironment], _ library: LibraryContext
    ) throws(AdministrationFault) {
        let members = try Members(text, ["app_id", "platform", "public_key", "certificate_key"])
        app = try members.app()
        guard let configured = environments[app] else {
            throw .badRequest("The app '\(app)' is not configured, so the gateway would refuse its devices.")
        }
        environment = configured
        platform = members.has("platform") ? try members.platform(of: app) : .standard(for: app)
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
            try value(
                "app_id", "an app id: ten letters and digits, a full stop, the bundle id; or android:PACKAGE",
                AppID.init)
        }

        func platform(of app: AppID) throws(AdministrationFault) -> Platform {
            let platform = try value("platform", Platform.names, Platform.init)
            guard platform.runs(app) else {
                throw .badRequest("The member 'platform' is not that of the app '\(app)'.")
            }
            return platform
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
    /// All values for people: `a, b or c`.
    public static var names: String {
        let names = allCases.map(\.rawValue)
        guard let last = names.last, names.count > 1 else { return names.joined() }
        return "\(names.dropLast().joined(separator: ", ")) or \(last)"
    }
}

/// A list of devices to be registered. A file has one JSON object per line, as `attestgate-load --prepare` writes it.
///
/// A line is `{"app_id", "public_key", "certificate_key"}`, with `"platform"` if it is neither iOS nor Android.
/// `DeviceKey.init(base64:)` parses the keys. No line may be empty, so that line numbers equal device numbers.
public struct RegistrationList {
    /// The registrations of valid lines.
    public private(set) var registrations: [DeviceRegistration] = []
    /// The faults in the order of lines. The list may be used only without faults.
    public private(set) var faults: [Fault] = []
    /// The number of lines read.
    public private(set) var lines = 0

    public struct Fault: Equatable, Sendable {
        /// The line number, from 1.
        public let line: Int
        /// A message for people.
        public let reason: String
    }

    /// Length limit of a line in bytes. One with both keys as SubjectPublicKeyInfo and the longest app id has about
    /// 500.
    public static let lineLimit = 2_048
    /// Limit of lines. Each takes about 500 bytes of memory.
    public static let limit = 1_000_000

    private let environments: [AppID: AttestationEnvironment]
    private let library: LibraryContext
    /// The line of each key read.
    private var hardwareKeys: [KeyID: Int] = [:]
    private var certificateKeys: [KeyID: Int] = [:]

    /// Creates an empty list.
    ///
    /// - Parameter environments: The configured apps with their environments.
    public init(environments: [AppID: AttestationEnvironment], _ library: LibraryContext) {
        self.environments = environments
        self.library = library
    }

    /// Reads the next line.
    ///
    /// - Parameter text: The line without its end.
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

/// A device's P-256 public key: a point on the curve, with its fingerprint.
public struct DeviceKey: Equatable, Sendable {
    public let point: PublicPoint
    public let id: KeyID

    /// Checks a point.
    ///
    /// - Parameter bytes: The uncompressed point, 65 bytes.
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

    /// Parses a key.
    ///
    /// - Parameter text: Base64 of the point, or of a SubjectPublicKeyInfo in DER with a named curve and an
    ///   uncompressed point (RFC 5480 section 2). `SecKey`, CryptoKit and OpenSSL write these forms.
    public init(base64 text: String, _ library: LibraryContext) throws(DeviceKeyFault) {
        guard let bytes = Base64.decode(text) else { throw .noBase64 }
        let isDER = bytes.count == Self.derPrefix.count + 65 && bytes.starts(with: Self.derPrefix)
        try self.init(point: isDER ? Array(bytes.dropFirst(Self.derPrefix.count)) : bytes, library)
    }

    /// Parses a PEM file.
    ///
    /// - Parameter pem: A public key, a private key, or certificates, of which the first counts. Several of these must
    ///   have the same key.
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
    public var base64: String { Base64.encode(point.bytes) }
}

/// The reason why an input is not a device's key.
public enum DeviceKeyFault: Error, Equatable, Sendable {
    case noBase64
    case noPEM
    case noKey
    case offCurve
    case severalKeys
}

extension DeviceKeyFault: CustomStringConvertible {
    /// A message for people.
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
