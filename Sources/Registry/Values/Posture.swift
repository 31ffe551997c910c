public import Vocabulary

/// What is known of a device, as policies see it: attested facts, and facts of the registry itself.
///
/// Trivial, so that threads copy it without a reference count. Times are in seconds since 1970-01-01T00:00:00Z. A fact
/// is nil while it is unknown.
public struct Posture: Equatable, Sendable {
    public var platform: Platform
    public var environment: AttestationEnvironment

    // MARK: - Of the newest attestation, assertion, receipt or token

    public var system: SystemVersion?
    public var app: AppVersion?
    /// Why Apple's system trusted the app: the number of `apple_validation_category_01`.
    public var distribution: UInt8?
    public var keyProtection: KeyProtection?
    /// Whether the certificate's key is attested, too. Only Android can.
    public var isCertificateKeyAttested: Bool?
    public var boot: AttestedPhone.BootState?
    public var isBootloaderLocked: Bool?
    /// Year and month, such as 202601.
    public var patchLevel: UInt32?
    /// Year, month and day, such as 20260105.
    public var vendorPatchLevel: UInt32?
    /// Year, month and day.
    public var bootPatchLevel: UInt32?
    /// The number of keys that were recently attested on the phone, from Apple's newest receipt.
    public var risk: UInt32?
    public var integrity: IntegrityLevels?
    /// The time of the app's request for `integrity`.
    public var integrityAt: Int64?

    /// What the app says of its phone.
    public var claims = Claims()

    // MARK: - Of the registry

    public var enrolledAt: Int64
    /// The time of the newest attestation. Nil for a device that was registered without one.
    public var attestedAt: Int64?
    /// The time at which the certificate's key was bound.
    public var boundAt: Int64?
    public var admission: AdmissionKind
    /// The registry's pseudonym of the person that the device was admitted for. No fact for people or services.
    public var subject: Fingerprint?

    public init(
        platform: Platform, environment: AttestationEnvironment = .production, enrolledAt: Int64,
        admission: AdmissionKind = .operator
    ) {
        self.platform = platform
        self.environment = environment
        self.enrolledAt = enrolledAt
        self.admission = admission
    }
}

extension Posture {
    /// Creates the posture of a device.
    ///
    /// - Parameter key: The mTLS key whose binding is meant. Nil for none.
    public init(_ details: DeviceDetails, binding key: KeyID? = nil) {
        self.init(
            details.device, details.attestation, claims: details.signals?.claims ?? Claims(),
            boundAt: details.bindings.first { $0.key == key }?.createdAt)
    }

    package init(
        _ device: Device, _ attestation: AttestationRecord?, claims: Claims = Claims(), boundAt: Int64? = nil
    ) {
        let (identity, phone) = (device.identity, attestation?.phone)
        self.init(
            platform: identity.platform, environment: identity.environment, enrolledAt: device.registeredAt,
            admission: AdmissionKind(device, isAttested: attestation != nil))
        self.boundAt = boundAt
        self.claims = claims
        subject = device.subject
        guard let attestation else { return }
        system = attestation.systemVersion
        app = phone.map { AppVersion(code: $0.appVersion) } ?? attestation.app.version
        distribution = attestation.app.distribution
        keyProtection = phone.map { KeyProtection($0.securityLevel) } ?? KeyProtection(of: identity.platform)
        isCertificateKeyAttested = attestation.isCertificateKeyAttested
        boot = phone?.bootState
        isBootloaderLocked = phone?.isLocked
        patchLevel = phone?.patchLevel
        vendorPatchLevel = phone?.vendorPatchLevel
        bootPatchLevel = phone?.bootPatchLevel
        risk = attestation.riskMetric
        integrity = phone?.integrity.map { IntegrityLevels(verdicts: $0.devices) }
        integrityAt = phone?.integrity?.requestedAt
        attestedAt = attestation.attestedAt ?? device.registeredAt
    }
}

/// What an attestation or assertion shows of an app on Apple's systems, since iOS 27 and macOS 27.
public struct ShownApp: Equatable, Sendable {
    /// Nil if the bundle version is not shown, or has another form.
    public var version: AppVersion?
    /// The number of `apple_validation_category_01`. Nil if it is not shown, or above 255.
    public var distribution: UInt8?

    public init(version: AppVersion? = nil, distribution: UInt8? = nil) {
        self.version = version
        self.distribution = distribution
    }

    var isEmpty: Bool { self == ShownApp() }
}

/// Where a device keeps its hardware key.
public enum KeyProtection: String, CaseIterable, Sendable {
    case secureEnclave = "secure-enclave"
    /// Android's trusted execution environment.
    case trustedEnvironment = "tee"
    /// A secure element of its own.
    case strongBox = "strongbox"

    init(_ level: AttestedPhone.SecurityLevel) {
        self =
            switch level {
            case .trustedEnvironment: .trustedEnvironment
            case .strongBox: .strongBox
            }
    }

    /// Creates the protection of keys that Apple attests.
    ///
    /// - Returns: nil for Android, which states it.
    init?(of platform: Platform) {
        guard platform != .android else { return nil }
        self = .secureEnclave
    }
}

/// How a device was admitted.
public enum AdmissionKind: String, CaseIterable, Sendable {
    /// Every genuine app was.
    case open
    /// By a token of the operator's identity provider.
    case token
    /// An operator approved it.
    case approval
    /// An operator registered it, without an attestation.
    case `operator`

    init(_ device: Device, isAttested: Bool) {
        if device.approvedAt != nil {
            self = .approval
        } else if device.subject != nil {
            self = .token
        } else {
            self = isAttested ? .open : .operator
        }
    }
}

/// The verdicts of Google Play on a phone.
public struct IntegrityLevels: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    public static let basic = IntegrityLevels(rawValue: 1)
    public static let device = IntegrityLevels(rawValue: 2)
    public static let strong = IntegrityLevels(rawValue: 4)
    public static let virtual = IntegrityLevels(rawValue: 8)

    /// The verdicts with Google's names, in Google's order.
    public static let named: [(level: IntegrityLevels, name: String)] = [
        (.basic, "MEETS_BASIC_INTEGRITY"), (.device, "MEETS_DEVICE_INTEGRITY"), (.strong, "MEETS_STRONG_INTEGRITY"),
        (.virtual, "MEETS_VIRTUAL_INTEGRITY"),
    ]

    /// Creates the levels from verdicts. Unknown ones have no level.
    public init(verdicts: some Sequence<String>) {
        self = verdicts.reduce(into: []) { levels, verdict in
            levels.formUnion(Self.named.first { $0.name == verdict }?.level ?? [])
        }
    }

    public var names: [String] { Self.named.filter { contains($0.level) }.map(\.name) }
}

/// The version of an app: Android's version code, or Apple's bundle version of up to three numbers.
///
/// Packed into 64 bits, because it is kept for every device in memory. Versions of one platform are comparable.
public struct AppVersion: Hashable, Comparable, Sendable {
    private let packed: UInt64
    private let isCode: Bool

    /// Creates a version from Android's version code.
    ///
    /// - Returns: nil for a negative code.
    public init?(code: Int64) {
        guard code >= 0 else { return nil }
        packed = UInt64(code)
        isCode = true
    }

    /// Parses Apple's `CFBundleVersion`.
    ///
    /// - Parameter text: One to three numbers with single full stops between them. The first is at most 4,294,967,295,
    ///   the others at most 65,535. Missing ones are 0.
    /// - Returns: nil for other texts. The version is then unknown.
    public init?(bundleVersion text: Span<UInt8>) {
        var numbers: InlineArray<3, UInt64> = [0, 0, 0]
        var (part, digits) = (0, 0)
        for index in text.indices {
            if text[index] == UInt8(ascii: ".") {
                guard digits > 0, part < 2 else { return nil }
                (part, digits) = (part + 1, 0)
                continue
            }
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[index]) else { return nil }
            digits += 1
            numbers[part] = numbers[part] * 10 + UInt64(text[index] - UInt8(ascii: "0"))
            guard numbers[part] <= (part == 0 ? 0xffff_ffff : 0xffff) else { return nil }
        }
        guard digits > 0 else { return nil }
        packed = numbers[0] << 32 | numbers[1] << 16 | numbers[2]
        isCode = false
    }

    public init?(bundleVersion text: String) {
        let bytes = Array(text.utf8)
        self.init(bundleVersion: bytes.span)
    }

    /// Parses the text of a version.
    package init?(_ text: String, on platform: Platform) {
        if platform == .android {
            guard let code = Int64(text) else { return nil }
            self.init(code: code)
        } else {
            self.init(bundleVersion: text)
        }
    }

    public static func < (left: AppVersion, right: AppVersion) -> Bool { left.packed < right.packed }
}

extension AppVersion: CustomStringConvertible {
    /// The code, or one to three numbers. Equal versions have equal texts.
    public var description: String {
        guard !isCode else { return String(packed) }
        let (first, second, third) = (packed >> 32, packed >> 16 & 0xffff, packed & 0xffff)
        if third > 0 { return "\(first).\(second).\(third)" }
        return second > 0 ? "\(first).\(second)" : "\(first)"
    }
}
