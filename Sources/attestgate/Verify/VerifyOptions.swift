internal import ArgumentParser
internal import Attestation
internal import Cryptography
internal import Foundation

/// Bytes on the command line: base64 of either alphabet. Options of it take their value unconditionally, since base64url may
/// begin with a hyphen.
struct Base64Option: ExpressibleByArgument {
    let bytes: [UInt8]

    init?(argument: String) {
        guard let decoded = Base64Text(argument) else { return nil }
        bytes = decoded.bytes
    }
}

/// A moment on the command line (RFC 3339).
struct TimeOption: ExpressibleByArgument {
    let time: InternetTime

    init?(argument: String) {
        guard let time = InternetTime(argument) else { return nil }
        self.time = time
    }

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// A P-256 key on the command line: its uncompressed point, or its SubjectPublicKeyInfo, in base64 or PEM.
struct PublicKeyOption: ExpressibleByArgument {
    private let argument: String

    init?(argument: String) { self.argument = argument }

    /// The uncompressed point, 65 bytes.
    func point(_ library: LibraryContext) throws -> [UInt8] {
        if argument.contains("-----BEGIN"), let key = try? PublicKey(pem: Array(argument.utf8), library) {
            return try Self.point(of: key)
        }
        guard let bytes = Base64Text(argument)?.bytes else { throw ValidationError("--public-key is not base64") }
        switch bytes.count {
        case 65 where bytes[0] == 0x04:
            guard (try? P256VerificationKey(point: bytes.span, library)) != nil else {
                throw ValidationError("--public-key is not a P-256 point: a byte is wrong")
            }
            return bytes
        case 32: throw ValidationError("--public-key has 32 bytes: it is a key id, not a key")
        case 33: throw ValidationError("--public-key is a compressed point; use the 65 bytes that begin with 04")
        case 64: throw ValidationError("--public-key has 64 bytes: put 04 before the two coordinates")
        default:
            guard let key = try? PublicKey(der: bytes.span, library) else {
                throw ValidationError(
                    "--public-key is neither a 65-byte point nor a DER SubjectPublicKeyInfo; it has \(bytes.count) bytes"
                )
            }
            return try Self.point(of: key)
        }
    }

    private static func point(of key: PublicKey) throws -> [UInt8] {
        guard key.isP256, let point = key.uncompressedPoint, point.count == 65 else {
            throw ValidationError("--public-key is not on P-256")
        }
        return point
    }
}

/// What the app hashed, or the hash it made.
struct ClientData {
    let given: [UInt8]
    let isHash: Bool
    /// What is verified with.
    let hash: [UInt8]

    init(_ data: Base64Option?, hash: Base64Option?, _ library: LibraryContext) throws {
        if let hash {
            (given, isHash, self.hash) = (hash.bytes, true, hash.bytes)
        } else {
            let bytes = data?.bytes ?? []
            (given, isHash) = (bytes, false)
            self.hash = try library.sha256(of: bytes.span).bytes
        }
    }
}
