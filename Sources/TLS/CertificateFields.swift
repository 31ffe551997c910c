internal import Cryptography
internal import Encoding

/// How much of a client's certificate services receive.
public enum CertificateForwarding: UInt8, Comparable, Sendable {
    case off
    case leaf
    case leafAndChain

    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// A client's certificate as services receive it: the values of the fields of RFC 9440.
///
/// They are made with the verification, and are a part of the identity. So a resumed session and a known chain have them
/// without any work, the chain included.
public struct CertificateFields: Sendable {
    /// The value of Client-Cert: `:<base64 DER>:`.
    public let leaf: [UInt8]
    /// The value of Client-Cert-Chain: the verified path from the leaf's issuer to the configured authority. Empty if it
    /// is not kept, or longer than `limit`: a part of it would be no path.
    public let chain: [UInt8]

    /// The maximum length of each value in bytes. Servers accept field lines of 8 KiB by default.
    public static let limit = 8_000

}

/// The encoder of the certificates that a context verifies.
final class CertificateEncoder {
    let kept: CertificateForwarding
    /// The chain of the last certificate. Most share their issuers, and then this one array.
    private var chain: [UInt8] = []

    init(keeping kept: CertificateForwarding) {
        self.kept = kept
    }

    /// Returns the values.
    ///
    /// - Parameter path: the verified path, the leaf first.
    /// - Returns: nil if nothing is kept, or the leaf's value is longer than the limit.
    func fields(of path: [Certificate]) throws(CryptographyError) -> CertificateFields? {
        guard kept > .off, let first = path.first else { return nil }
        let leaf = Self.item(try first.der())
        guard leaf.count <= CertificateFields.limit else { return nil }
        guard kept == .leafAndChain, path.count > 1 else { return CertificateFields(leaf: leaf, chain: []) }
        var encoded: [UInt8] = []
        for certificate in path.dropFirst() {
            if !encoded.isEmpty { encoded += Array(", ".utf8) }
            encoded += Self.item(try certificate.der())
        }
        guard encoded.count <= CertificateFields.limit else { return CertificateFields(leaf: leaf, chain: []) }
        return CertificateFields(leaf: leaf, chain: shared(encoded))
    }

    /// Returns the value of a chain, in the array of the last one if they are equal.
    func shared(_ encoded: [UInt8]) -> [UInt8] {
        if encoded != chain { chain = encoded }
        return chain
    }

    /// Returns a byte sequence of RFC 8941 section 3.3.5.
    private static func item(_ der: [UInt8]) -> [UInt8] {
        var item: [UInt8] = [UInt8(ascii: ":")]
        Base64.encode(der.span, appendingTo: &item)
        item.append(UInt8(ascii: ":"))
        return item
    }
}
