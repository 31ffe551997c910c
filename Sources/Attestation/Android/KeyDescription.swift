public import Encoding

/// What a phone's keystore says about a key: the extension 1.3.6.1.4.1.11129.2.1.17 of the key's certificate.
///
/// Source: Android's documentation of key and ID attestation. Versions are ordered numbers, and later ones are read
/// alike. The reader is strict, except where genuine phones differ: the tags of a list may be in any order, as may the
/// members of a set, and a BOOLEAN may have any value other than zero.
public struct KeyDescription: Equatable, Sendable {
    public static let identifier = "1.3.6.1.4.1.11129.2.1.17"

    public let attestationVersion: UInt64
    /// Where the attestation was made.
    public let attestationSecurityLevel: SecurityLevel
    /// The version of KeyMint, or of Keymaster, its predecessor.
    public let keyMintVersion: UInt64
    /// Where the key is kept.
    public let keyMintSecurityLevel: SecurityLevel
    /// The argument of `setAttestationChallenge`.
    public let attestationChallenge: [UInt8]
    /// What Android says.
    public let softwareEnforced: AuthorizationList
    /// What the secure hardware says.
    public let hardwareEnforced: AuthorizationList

    /// Where something is done or kept, the least secure first.
    public enum SecurityLevel: UInt64, Comparable, Sendable, CaseIterable {
        case software
        case trustedEnvironment
        case strongBox

        public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

        /// Android's name.
        public var name: String {
            switch self {
            case .software: "SOFTWARE"
            case .trustedEnvironment: "TRUSTED_ENVIRONMENT"
            case .strongBox: "STRONG_BOX"
            }
        }
    }

    /// Parses the value of the extension.
    ///
    /// - Throws: if the value is no DER of this form, or a list or value exceeds its limit.
    public init(_ bytes: Span<UInt8>) throws(DERFault) {
        var outer = DERReader(bytes)
        let content = try outer.read(.sequence)
        try outer.finish()
        var reader = DERReader(bytes, in: content)
        attestationVersion = try reader.readUnsigned()
        attestationSecurityLevel = try Self.readLevel(&reader)
        keyMintVersion = try reader.readUnsigned()
        keyMintSecurityLevel = try Self.readLevel(&reader)
        attestationChallenge = [UInt8](bytes, try reader.read(.octetString))
        // A unique id is not kept: it identifies a phone.
        _ = try reader.read(.octetString)
        softwareEnforced = try AuthorizationList(bytes, in: try reader.read(.sequence))
        hardwareEnforced = try AuthorizationList(bytes, in: try reader.read(.sequence))
        try reader.finish()
    }

    private static func readLevel(_ reader: inout DERReader) throws(DERFault) -> SecurityLevel {
        guard let level = SecurityLevel(rawValue: try reader.readUnsigned(.enumerated)) else { throw .unexpectedValue }
        return level
    }
}

/// The properties of a key, by Android's tags. Values that no rule needs are kept for display if they are small.
public struct AuthorizationList: Equatable, Sendable {
    /// A tag (KeyMint's `Tag.aidl`).
    public struct Tag: Hashable, Sendable {
        public let number: UInt32

        public init(_ number: UInt32) { self.number = number }

        public static let purpose = Tag(1)
        public static let algorithm = Tag(2)
        public static let keySize = Tag(3)
        public static let digest = Tag(5)
        public static let padding = Tag(6)
        public static let ecCurve = Tag(10)
        public static let allApplications = Tag(600)
        public static let creationDateTime = Tag(701)
        public static let origin = Tag(702)
        public static let rootOfTrust = Tag(704)
        public static let osVersion = Tag(705)
        public static let osPatchLevel = Tag(706)
        public static let applicationID = Tag(709)
        public static let vendorPatchLevel = Tag(718)
        public static let bootPatchLevel = Tag(719)
        public static let moduleHash = Tag(724)

        /// Whether the tag says which phone it is: brand, device, product, serial number, IMEI, MEID, manufacturer and
        /// model. Such values are never kept.
        var identifiesPhone: Bool { (710...717).contains(number) || number == 723 }
        /// Whether the value is a SET OF INTEGER.
        var isSet: Bool { [1, 4, 5, 6, 203].contains(number) }
    }

    public enum Value: Equatable, Sendable {
        /// NULL: the tag is there.
        case flag
        case number(UInt64)
        case numbers([UInt64])
        case bytes([UInt8])
        case rootOfTrust(RootOfTrust)
        case application(AttestedApplication)
        /// A value that is not kept.
        case withheld
    }

    public let values: [Tag: Value]

    /// The maximum of tags in a list; genuine lists have up to 30.
    static let tagLimit = 64
    /// The maximum of members of a set.
    static let setLimit = 16
    /// The maximum of bytes that are kept for display.
    static let displayLimit = 64

    init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(DERFault) {
        var values: [Tag: Value] = [:]
        var reader = DERReader(bytes, in: range)
        while !reader.isAtEnd {
            let (outer, content) = try reader.next()
            guard outer.leading == 0xa0 else { throw .unexpectedTag }
            let tag = Tag(outer.number)
            guard values.count < Self.tagLimit, values[tag] == nil else { throw .unexpectedValue }
            values[tag] = try Self.value(of: tag, bytes, in: content)
        }
        self.values = values
    }

    private static func value(of tag: Tag, _ bytes: Span<UInt8>, in range: Range<Int>) throws(DERFault) -> Value {
        var reader = DERReader(bytes, in: range)
        let value: Value
        switch tag {
        case .rootOfTrust: value = .rootOfTrust(try RootOfTrust(bytes, in: try reader.read(.sequence)))
        case .applicationID:
            value = .application(try AttestedApplication(bytes, in: try reader.read(.octetString)))
        case .allApplications:
            guard try reader.read(.null).isEmpty else { throw .unexpectedValue }
            value = .flag
        case .algorithm, .keySize, .ecCurve, .creationDateTime, .origin, .osVersion, .osPatchLevel, .vendorPatchLevel,
            .bootPatchLevel:
            value = .number(try reader.readUnsigned())
        default:
            value = tag.isSet ? .numbers(try numbers(bytes, in: try reader.read(.set))) : try other(tag, bytes, &reader)
        }
        try reader.finish()
        return value
    }

    private static func numbers(_ bytes: Span<UInt8>, in range: Range<Int>) throws(DERFault) -> [UInt64] {
        var numbers: [UInt64] = []
        var reader = DERReader(bytes, in: range)
        while !reader.isAtEnd {
            guard numbers.count < setLimit else { throw .unexpectedValue }
            numbers.append(try reader.readUnsigned())
        }
        return numbers
    }

    /// Reads a value that no rule needs.
    private static func other(
        _ tag: Tag, _ bytes: Span<UInt8>, _ reader: inout DERReader
    ) throws(DERFault) -> Value {
        let (kind, content) = try reader.next()
        guard !tag.identifiesPhone else { return .withheld }
        switch kind {
        case .null where content.isEmpty: return .flag
        case .octetString where content.count <= displayLimit: return .bytes([UInt8](bytes, content))
        case .integer where (1...8).contains(content.count) && bytes[content.lowerBound] < 0x80:
            return .number(content.reduce(0) { $0 << 8 | UInt64(bytes[$1]) })
        default: return .withheld
        }
    }

    // MARK: - What rules ask for

    public func number(_ tag: Tag) -> UInt64? {
        if case .number(let number) = values[tag] { number } else { nil }
    }

    public func numbers(_ tag: Tag) -> [UInt64] {
        if case .numbers(let numbers) = values[tag] { numbers } else { [] }
    }

    public var rootOfTrust: RootOfTrust? {
        if case .rootOfTrust(let root) = values[.rootOfTrust] { root } else { nil }
    }

    public var application: AttestedApplication? {
        if case .application(let application) = values[.applicationID] { application } else { nil }
    }
}

/// How the phone was started.
public struct RootOfTrust: Equatable, Sendable {
    public enum BootState: UInt64, Sendable {
        /// With the maker's system.
        case verified
        /// With a system that the owner has signed.
        case selfSigned
        case unverified
        case failed

        /// Android's name.
        public var name: String {
            switch self {
            case .verified: "VERIFIED"
            case .selfSigned: "SELF_SIGNED"
            case .unverified: "UNVERIFIED"
            case .failed: "FAILED"
            }
        }
    }

    public let verifiedBootKey: [UInt8]
    /// Whether the bootloader is locked.
    public let isLocked: Bool
    public let bootState: BootState
    /// Nil up to version 2.
    public let verifiedBootHash: [UInt8]?

    /// The maximum of bytes of boot key and boot hash; most phones state a SHA-256.
    static let valueLimit = 512

    init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(DERFault) {
        var reader = DERReader(bytes, in: range)
        verifiedBootKey = try Self.readValue(bytes, &reader)
        let locked = try reader.read(.boolean)
        guard locked.count == 1 else { throw .unexpectedValue }
        // Genuine phones send 0x01, not 0xff.
        isLocked = bytes[locked.lowerBound] != 0
        guard let state = BootState(rawValue: try reader.readUnsigned(.enumerated)) else { throw .unexpectedValue }
        bootState = state
        verifiedBootHash = reader.isAtEnd ? nil : try Self.readValue(bytes, &reader)
        try reader.finish()
    }

    private static func readValue(_ bytes: Span<UInt8>, _ reader: inout DERReader) throws(DERFault) -> [UInt8] {
        let content = try reader.read(.octetString)
        guard content.count <= valueLimit else { throw .unexpectedValue }
        return [UInt8](bytes, content)
    }
}

/// The app that asked for the key: all packages with its user id, and the certificates that signed them.
public struct AttestedApplication: Equatable, Sendable {
    public struct Package: Equatable, Sendable {
        public let name: String
        /// The version code.
        public let version: UInt64

        /// Returns whether the name has these bytes. Texts of Swift are equal also if they only look alike.
        func isNamed(_ name: String) -> Bool { self.name.utf8.elementsEqual(name.utf8) }
    }

    public let packages: [Package]
    /// SHA-256 of each signing certificate.
    public let signingCertificates: [[UInt8]]

    /// The maximum of bytes. Android's own limit is 1,024.
    static let lengthLimit = 2048
    /// The maximum of packages, and of certificates.
    static let limit = 64

    init(_ bytes: Span<UInt8>, in range: Range<Int>) throws(DERFault) {
        guard range.count <= Self.lengthLimit else { throw .unexpectedValue }
        var outer = DERReader(bytes, in: range)
        let content = try outer.read(.sequence)
        try outer.finish()
        var reader = DERReader(bytes, in: content)
        var packages: [Package] = []
        var list = DERReader(bytes, in: try reader.read(.set))
        while !list.isAtEnd {
            guard packages.count < Self.limit else { throw .unexpectedValue }
            var package = DERReader(bytes, in: try list.read(.sequence))
            let name = try package.read(.octetString)
            let version = try package.readUnsigned()
            try package.finish()
            guard let text = String(validating: [UInt8](bytes, name), as: UTF8.self) else { throw .unexpectedValue }
            packages.append(Package(name: text, version: version))
        }
        var digests: [[UInt8]] = []
        list = DERReader(bytes, in: try reader.read(.set))
        while !list.isAtEnd {
            guard digests.count < Self.limit else { throw .unexpectedValue }
            digests.append([UInt8](bytes, try list.read(.octetString)))
        }
        try reader.finish()
        self.packages = packages
        signingCertificates = digests
    }
}

extension [UInt8] {
    fileprivate init(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        self = range.map { bytes[$0] }
    }
}
