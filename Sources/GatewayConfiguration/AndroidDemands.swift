internal import Encoding

extension AppConfiguration {
    /// SHA-256 of a certificate that signs the app.
    public struct SigningCertificate: Hashable, Sendable {
        public let digest: [UInt8]
    }

    /// Where a phone keeps its hardware key, the least secure first.
    public enum SecurityLevel: String, CaseIterable, Sendable {
        /// The trusted execution environment.
        case tee
        case strongbox
    }

    public enum CertificateKey: String, CaseIterable, Sendable {
        case any
        /// Each key binding must contain the attestation of the certificate's key.
        case attested
    }

    /// A month of Android's security updates.
    public struct PatchLevel: Hashable, Sendable {
        /// Year and month, such as 202601.
        public let number: Int
    }

    public enum AttestKey: String, CaseIterable, Sendable {
        case refuse
        /// Accepts the chain of `setAttestKeyAlias`, which is one certificate longer.
        case allow
    }

    /// The software that a phone was started with.
    public enum Boot: String, CaseIterable, Sendable {
        /// The maker's, with a locked bootloader.
        case verified
        case any
    }
}

extension AppConfiguration.SigningCertificate {
    static var kind: Kind<Self> {
        .text(
            "SHA-256 of a certificate in 64 hexadecimal digits, with or without colons",
            matching: "^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$"
        ) { text throws(InvalidValue) in
            // As keytool and the Play Console print it.
            let digits = text.lowercased().filter { $0 != ":" }
            guard let digest = Hexadecimal.decode(digits[...]), digest.count == 32 else {
                throw InvalidValue("\(Printable.quoted(text)) is not a SHA-256")
            }
            return Self(digest: digest)
        }
    }
}

extension AppConfiguration.PatchLevel {
    static var kind: Kind<Self> {
        .text("year and month, such as 2026-01", matching: "^20[0-9]{2}-(0[1-9]|1[0-2])$") {
            text throws(InvalidValue) in
            let parts = text.split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 2, parts[0].utf8.count == 4, parts[1].utf8.count == 2,
                let year = Decimal.parse(parts[0]), let month = Int(parts[1]), (2000...2099).contains(year),
                (1...12).contains(month)
            else { throw InvalidValue("\(Printable.quoted(text)) is not a year and month") }
            return Self(number: year * 100 + month)
        }
    }
}

/// The demands on tokens of the Play Integrity API, which are verified with the app's keys from the Play Console.
public struct PlayIntegrityConfiguration: Equatable, ConfigurationSection {
    @Setting(
        key: "decryption_key", required: .secretFile("a readable file"), "The key that decrypts tokens, in base64.")
    public var decryptionKeyPath: String
    @Setting(
        key: "verification_key", required: .secretFile("a readable file"),
        "Google's public key for the app, in base64 or PEM.")
    public var verificationKeyPath: String
    @Setting(.choice, "The verdict that phones must have.")
    public var device: DeviceVerdict?
    @Setting(.choice, default: "false", "Whether each key binding needs a token, too.")
    public var eachBinding: EachBinding

    static let section = Section("apps.play_integrity", of: Self.self)

    public enum DeviceVerdict: String, CaseIterable, Sendable {
        case basic = "MEETS_BASIC_INTEGRITY"
        case device = "MEETS_DEVICE_INTEGRITY"
        case strong = "MEETS_STRONG_INTEGRITY"
        case virtual = "MEETS_VIRTUAL_INTEGRITY"
    }

    public enum EachBinding: String, CaseIterable, Sendable {
        case yes = "true"
        case no = "false"
    }

    var files: [String] { [decryptionKeyPath, verificationKeyPath] }
}
