internal import Encoding

/// A certificate's serial number: positive, with at most 20 octets in DER (RFC 5280 section 4.1.2.2).
public struct CertificateSerial: Hashable, Sendable {
    /// The number in big-endian order without leading zeros: 1 to 20 bytes.
    public let bytes: [UInt8]

    /// Creates a serial number for an own certificate: 128 random bits after a one, so that all have the same length.
    ///
    /// - Parameter random: 16 unpredictable bytes.
    /// - Returns: nil for another number of bytes.
    public init?(random: [UInt8]) {
        guard random.count == 16 else { return nil }
        bytes = [1] + random
    }

    /// Creates a serial number.
    ///
    /// - Parameter bytes: As in the property `bytes`. With the highest bit set, DER needs one more octet, so that at
    ///   most 19 bytes are accepted.
    public init?(_ bytes: [UInt8]) {
        guard let first = bytes.first, first != 0, bytes.count + Int(first >> 7) <= 20 else { return nil }
        self.bytes = bytes
    }

    /// Parses a serial number.
    ///
    /// - Parameter text: The form of `description`.
    public init?(_ text: String) {
        guard text.utf8.count <= 40, let bytes = Hexadecimal.decode(text.lowercased()), let serial = Self(bytes),
            serial.description == text
        else { return nil }
        self = serial
    }
}

extension CertificateSerial: CustomStringConvertible {
    /// The number in upper-case hexadecimal with pairs of digits, as OpenSSL's tools print it.
    public var description: String { Hexadecimal.encode(bytes).uppercased() }
}

/// An entry of a revocation list (RFC 5280 section 5.1.2.6).
public struct RevokedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// The time of revocation in seconds since 1970-01-01T00:00:00Z.
    public let revokedAt: Int64
    public let reason: RevocationReason

    public init(serial: CertificateSerial, revokedAt: Int64, reason: RevocationReason) {
        self.serial = serial
        self.revokedAt = revokedAt
        self.reason = reason
    }
}

/// The reason of a revocation: those of RFC 5280 section 5.3.1 that the registry uses.
public enum RevocationReason: String, CaseIterable, Sendable {
    /// Another key has replaced the certificate's key.
    case superseded
    /// The key's binding to its device has ended.
    case cessationOfOperation
    /// The device is revoked. It may be restored. No other reason can be undone.
    case certificateHold
}
