/// A certificate's serial number: positive, and at most 20 octets in DER (RFC 5280 section 4.1.2.2).
public struct CertificateSerial: Hashable, Sendable {
    /// The number, most significant octet first, without leading zeros: 1 to 20 of them.
    public let bytes: [UInt8]

    /// Of certificates of our own: 128 random bits behind a one, so that all are of one length.
    ///
    /// - Parameter random: 16 octets that nobody can predict; nil comes of any other number.
    public init?(random: [UInt8]) {
        guard random.count == 16 else { return nil }
        bytes = [1] + random
    }

    /// - Parameter bytes: as `bytes` says. With the highest bit set, DER needs an octet more, so there are 19 at most.
    public init?(_ bytes: [UInt8]) {
        guard let first = bytes.first, first != 0, bytes.count + Int(first >> 7) <= 20 else { return nil }
        self.bytes = bytes
    }

    /// - Parameter text: as `description` writes it.
    public init?(_ text: String) {
        guard text.utf8.count <= 40, let bytes = Hexadecimal.decode(text.lowercased()), let serial = Self(bytes),
            serial.description == text
        else { return nil }
        self = serial
    }
}

extension CertificateSerial: CustomStringConvertible {
    /// Upper-case hexadecimal in pairs of digits, as OpenSSL's tools print it.
    public var description: String { Hexadecimal.encode(bytes).uppercased() }
}

/// An entry of a revocation list (RFC 5280 section 5.1.2.6).
public struct RevokedCertificate: Equatable, Sendable {
    public let serial: CertificateSerial
    /// Seconds since 1970-01-01T00:00:00Z.
    public let revokedAt: Int64
    public let reason: RevocationReason

    public init(serial: CertificateSerial, revokedAt: Int64, reason: RevocationReason) {
        self.serial = serial
        self.revokedAt = revokedAt
        self.reason = reason
    }
}

/// Why a certificate is revoked: those reasons of RFC 5280 section 5.3.1 that a registry knows.
public enum RevocationReason: String, CaseIterable, Sendable {
    /// Another key has taken the place of the certificate's.
    case superseded
    /// The key's binding to its device was ended.
    case cessationOfOperation
    /// The device is revoked. It may be restored, and no other reason can be taken back.
    case certificateHold
}
