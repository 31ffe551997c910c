/// What Android's key attestation has said of a phone. Nothing in it identifies the phone.
public struct AttestedPhone: Equatable, Sendable {
    /// Where the hardware key lives.
    public enum SecurityLevel: String, CaseIterable, Sendable {
        /// The trusted execution environment.
        case trustedEnvironment = "tee"
        /// A secure element of its own.
        case strongBox = "strongbox"
    }

    /// The software that the phone was started with.
    public enum BootState: String, CaseIterable, Sendable {
        case verified
        /// Signed by the phone's owner.
        case selfSigned = "self-signed"
        case unverified
        case failed
    }

    public private(set) var securityLevel: SecurityLevel
    public let bootState: BootState
    /// Whether the bootloader is locked.
    public let isLocked: Bool
    /// The key that has verified the software: the maker's, or the owner's. At most 512 bytes.
    public let bootKey: [UInt8]
    /// The security patch level as year and month, such as 202601. Nil if none was stated.
    public let patchLevel: UInt32?
    /// The vendor's patch level as year, month and day, such as 20260105. Nil if none was stated.
    public let vendorPatchLevel: UInt32?
    /// The boot image's patch level as year, month and day. Nil if none was stated.
    public let bootPatchLevel: UInt32?
    /// The version code of the app, not negative.
    public let appVersion: Int64
    /// What Google Play said last. Nil if it was never asked.
    public package(set) var integrity: IntegrityVerdict?
    /// The serial numbers of the certificates that vouch for the keys, sorted: of the hardware key and, where the
    /// certificate's key is attested, also of that. In lower-case hexadecimal without leading zeros, 1 to 40 digits.
    public private(set) var serials: [String]

    public static let bootKeyLimit = 512

    /// Creates a record.
    ///
    /// - Parameter serials: In any order, with duplicates.
    /// - Returns: nil if the boot key exceeds `bootKeyLimit`, the version is negative, or a text is no serial number.
    public init?(
        securityLevel: SecurityLevel, bootState: BootState, isLocked: Bool, bootKey: [UInt8], patchLevel: UInt32?,
        vendorPatchLevel: UInt32?, bootPatchLevel: UInt32?, appVersion: Int64, integrity: IntegrityVerdict? = nil,
        serials: [String]
    ) {
        guard appVersion >= 0, bootKey.count <= Self.bootKeyLimit, serials.allSatisfy(Self.isSerial) else { return nil }
        self.securityLevel = securityLevel
        self.bootState = bootState
        self.isLocked = isLocked
        self.bootKey = bootKey
        self.patchLevel = patchLevel
        self.vendorPatchLevel = vendorPatchLevel
        self.bootPatchLevel = bootPatchLevel
        self.appVersion = appVersion
        self.integrity = integrity
        self.serials = Set(serials).sorted()
    }

    /// Returns the record with another verdict of Google Play.
    public func with(_ integrity: IntegrityVerdict?) -> AttestedPhone {
        var phone = self
        phone.integrity = integrity
        return phone
    }

    /// Returns the record with the level of another attestation.
    public func with(_ level: SecurityLevel) -> AttestedPhone {
        var phone = self
        phone.securityLevel = level
        return phone
    }

    package mutating func add(_ more: [String]) { serials = Set(serials + more).sorted() }

    /// Returns whether a text is a serial number as in `serials`.
    static func isSerial(_ text: String) -> Bool {
        (1...40).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
            && (text.utf8.first != UInt8(ascii: "0") || text == "0")
    }
}

/// What Google Play said of a phone, in a token of the Play Integrity API.
public struct IntegrityVerdict: Equatable, Sendable {
    /// The verdicts on the device, such as `MEETS_STRONG_INTEGRITY`, in Google's order. At most 16, each of at most 64
    /// capital letters, digits and underscores.
    public let devices: [String]
    /// The time of the app's request, in seconds since 1970-01-01T00:00:00Z.
    public let requestedAt: Int64

    /// - Returns: nil for other verdicts.
    public init?(devices: [String], requestedAt: Int64) {
        let isVerdict = { (text: String) in
            (1...64).contains(text.utf8.count)
                && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || $0 == 0x5f }
        }
        guard devices.count <= 16, devices.allSatisfy(isVerdict), requestedAt >= 0 else { return nil }
        self.devices = devices
        self.requestedAt = requestedAt
    }

    /// The stored form: the verdicts with spaces between them.
    package var text: String { devices.joined(separator: " ") }

    /// Creates a verdict from its stored form.
    package init?(text: String, requestedAt: Int64) {
        self.init(devices: text.split(separator: " ").map(String.init), requestedAt: requestedAt)
    }
}
