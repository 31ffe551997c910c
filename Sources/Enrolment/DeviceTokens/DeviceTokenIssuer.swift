internal import Attestation
public import Cryptography
internal import Encoding
public import Registry
public import Vocabulary

/// The settings of the device tokens that a service issues.
public struct DeviceTokenIssuerSettings: Sendable {
    /// The `iss` of the tokens.
    public var issuer: String
    /// The private key in PEM, on P-256.
    public var key: [UInt8]
    /// The lifetime of a token in seconds.
    public var life: Int64
    /// The key of people's pseudonyms in tokens, 32 bytes.
    public var subjects: [UInt8]
    /// Whether the answer to a key binding has a token.
    public var atKeyBinding: Bool

    public init(
        issuer: String, key: [UInt8], life: Int64, subjects: [UInt8] = [UInt8](repeating: 0, count: 32),
        atKeyBinding: Bool = false
    ) {
        self.atKeyBinding = atKeyBinding
        self.issuer = issuer
        self.key = key
        self.life = life
        self.subjects = subjects
    }
}

/// What a device token states.
public struct DeviceTokenSubject: Sendable {
    public let app: AppID
    public let posture: Posture
    /// The id of the key of the client's certificate.
    public let key: KeyID
    /// SHA-256 of the client's certificate, 32 bytes.
    public let thumbprint: [UInt8]
    /// The highest counter of the device.
    public let counter: UInt32
    /// What the app says of its phone.
    public let signals: Signals?

    /// - Parameters:
    ///   - details: The device.
    ///   - key: The id of the key of the client's certificate, which is bound to the device.
    ///   - thumbprint: SHA-256 of that certificate.
    public init(_ details: DeviceDetails, key: KeyID, thumbprint: [UInt8]) {
        self.init(
            app: details.device.identity.app, posture: Posture(details, binding: key), key: key,
            thumbprint: thumbprint, counter: details.device.highestCounter, signals: details.signals)
    }

    init(
        app: AppID, posture: Posture, key: KeyID, thumbprint: [UInt8], counter: UInt32, signals: Signals? = nil
    ) {
        self.signals = signals
        self.app = app
        self.posture = posture
        self.key = key
        self.thumbprint = thumbprint
        self.counter = counter
    }
}

/// The issuer of device tokens: signed statements of a device's posture, which services and other gateways verify by
/// themselves.
///
/// A token has the claims of gematik's reference system, as far as the registry knows them. Belongs to the thread of its
/// library context.
public struct DeviceTokenIssuer {
    let signer: TokenSigner
    let life: Int64
    private let issuer: String
    private let subjects: AuthenticationKey
    private let library: LibraryContext

    /// - Throws: if the key cannot be read, or is not on P-256.
    public init(_ settings: DeviceTokenIssuerSettings, _ library: LibraryContext) throws(CryptographyError) {
        signer = try TokenSigner(pem: settings.key, library)
        issuer = settings.issuer
        life = settings.life
        subjects = try AuthenticationKey(settings.subjects.span, library)
        self.library = library
    }

    /// Returns a token in compact serialization (RFC 7515 section 3.1).
    ///
    /// - Parameter now: The time in seconds since 1970.
    public func token(for subject: DeviceTokenSubject, now: Int64) throws(CryptographyError) -> String {
        let id = Base64URL.encode(try library.randomBytes(16))
        let app = Array(subject.app.description.utf8)
        let appDigest = try library.sha256(of: app.span).bytes
        var user: String?
        if let known = subject.posture.subject?.bytes {
            user = Hexadecimal.encode(try subjects.code(of: known.span).bytes)
        }
        let claims = JSONWriter.object { claims in
            claims.member("iss", issuer)
            claims.member("sub", Base64.encode(subject.key.bytes))
            claims.member("iat", now)
            claims.member("exp", now + life)
            claims.member("jti", id)
            claims.member("type", subject.posture.platform == .android ? "ANDROID" : "IOS")
            claims.member("userIdentifier", user)
            claims.object("cnf") { $0.member("x5t#S256", Base64URL.encode(subject.thumbprint)) }
            claims.object("deviceHealth", keepsEmpty: true) { health in
                subject.posture.write(to: &health, subject, appDigest: appDigest)
            }
        }
        return try signer.sign(type: "JWT", claims)
    }
}

/// The health of a device, by the names of the reference system.
extension Posture {
    /// - Parameter appDigest: SHA-256 of the app's id.
    fileprivate func write(to health: inout JSONWriter, _ subject: DeviceTokenSubject, appDigest: [UInt8]) {
        if platform == .android {
            if let integrity {
                health.object("integrityVerdict") { verdict in
                    verdict.object("deviceIntegrity") { $0.member("deviceRecognitionVerdict", integrity.names) }
                }
            }
            if let level = keyProtection?.securityLevel {
                health.object("keyIdAttestation") { writeKeyAttestation(to: &$0, subject, level) }
            }
        } else {
            health.object("assertion") { assertion in
                assertion.member("rpID", Base64.encode(appDigest))
                assertion.member("counter", subject.counter)
                assertion.member("riskMetric", risk.map { "\($0)" } ?? "unavailable")
            }
        }
        health.object("deviceAttributes", keepsEmpty: true) { attributes in
            // An attested version takes the place of the one that the app says.
            attributes.member("systemVersion", system?.description)
            if let signals = subject.signals {
                attributes.members(of: signals, except: system == nil ? nil : "systemVersion")
            }
        }
    }

    private func writeKeyAttestation(to attestation: inout JSONWriter, _ subject: DeviceTokenSubject, _ level: Int) {
        attestation.member("attestationSecurityLevel", level)
        attestation.object("keyStore") { $0.member("securityLevel", level) }
        attestation.object("softwareEnforced", keepsEmpty: true) { enforced in
            enforced.object("attestationApplicationId") { id in
                id.member(
                    "packageInfos",
                    [
                        { info in
                            info.member("packageName", subject.app.package)
                            info.member("version", app.flatMap { Int64($0.description) })
                        }
                    ])
            }
        }
        attestation.object("teeEnforced", keepsEmpty: true) { enforced in
            enforced.object("rootOfTrust") { root in
                root.member("deviceLocked", isBootloaderLocked)
                root.member("verifiedBootState", boot?.name)
            }
            enforced.member("osVersion", system?.keyMintNumber)
            enforced.member("osPatchLevel", patchLevel)
            enforced.member("vendorPatchLevel", vendorPatchLevel)
            enforced.member("bootPatchLevel", bootPatchLevel)
        }
    }
}

extension KeyProtection {
    /// Android's SecurityLevel. Nil for Apple's keys.
    fileprivate var securityLevel: Int? {
        switch self {
        case .secureEnclave: nil
        case .trustedEnvironment: 1
        case .strongBox: 2
        }
    }
}

extension AttestedPhone.BootState {
    /// The name in Android's VerifiedBootState.
    fileprivate var name: String {
        switch self {
        case .verified: "VERIFIED"
        case .selfSigned: "SELF_SIGNED"
        case .unverified: "UNVERIFIED"
        case .failed: "FAILED"
        }
    }
}

extension SystemVersion {
    /// Android's form: two digits for each number, such as 150000.
    fileprivate var keyMintNumber: Int {
        let numbers = description.split(separator: ".").compactMap { Int($0) } + [0, 0, 0]
        return numbers[0] * 10_000 + numbers[1] * 100 + numbers[2]
    }
}
