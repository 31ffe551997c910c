public import Cryptography
internal import Foundation
public import Registry
public import Vocabulary

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
