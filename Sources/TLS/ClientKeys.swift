public import Cryptography

/// The keys that issued client certificates and the authorities in their chains may have.
public struct ClientKeys: Equatable, Sendable {
    /// A kind of key.
    public enum Kind: Equatable, Sendable {
        case p256
        case p384
        case p521
        case ed25519
        /// RSA with a modulus of at least so many bits, from 2048.
        case rsa(bits: Int)
    }

    private let kinds: [Kind]

    /// The longest RSA modulus in bits. Verification with a longer one would take more than a handshake.
    private static let longestModulus = 8192
    /// The longest public exponent in bits. OpenSSL has this limit for moduli above 3072 bits only.
    private static let longestExponent = 64

    /// P-256, which is the only kind that can be bound to a device.
    public static let standard = ClientKeys([.p256])

    /// All kinds with the strength of P-256.
    public static let strong = ClientKeys([.p256, .p384, .p521, .ed25519, .rsa(bits: 3072)])

    /// Creates the set.
    ///
    /// - Parameter kinds: at least one.
    public init(_ kinds: [Kind]) {
        self.kinds = kinds
    }

    /// Returns why a key is not accepted, in words that follow "the certificate" or "the authority". Nil if it is.
    ///
    /// - Parameter certificate: the certificate of the key.
    public func objection(to certificate: Certificate) -> String? {
        guard let key = certificate.publicKey else { return "has a key of an unknown type" }
        switch key.kind {
        case .p256 where kinds.contains(.p256), .p384 where kinds.contains(.p384), .p521 where kinds.contains(.p521),
            .ed25519 where kinds.contains(.ed25519):
            return nil
        case .rsa(let bits) where leastModulus.map { bits >= $0 } ?? false:
            guard bits <= Self.longestModulus, let exponent = key.exponentBits, exponent <= Self.longestExponent else {
                return "has an RSA key that is too expensive: at most \(Self.longestModulus) bits, with an exponent of "
                    + "at most \(Self.longestExponent)"
            }
            return nil
        case .p256, .p384, .p521, .ed25519, .rsa, .other:
            return "has the key \(certificate.keyAlgorithm), and `keys` accepts \(self)"
        }
    }

    private var leastModulus: Int? {
        kinds.compactMap { if case .rsa(let bits) = $0 { bits } else { nil } }.min()
    }

    /// The signature algorithms of clients and of their certificates, with SHA-256 or more. PKCS #1 v1.5 is only for
    /// TLS 1.2 and for certificates (RFC 8446 section 4.2.3).
    ///
    /// - Parameter selfSigned: whether self-signed certificates are accepted, whose keys are always on P-256.
    func signatures(selfSigned: Bool) -> [String] {
        var names = kinds.contains(.p256) || selfSigned ? ["ecdsa_secp256r1_sha256"] : []
        if kinds.contains(.p384) { names.append("ecdsa_secp384r1_sha384") }
        if kinds.contains(.p521) { names.append("ecdsa_secp521r1_sha512") }
        if kinds.contains(.ed25519) { names.append("ed25519") }
        guard leastModulus != nil else { return names }
        return names
            + ["rsa_pss_rsae", "rsa_pkcs1"].flatMap { scheme in
                ["sha256", "sha384", "sha512"].map { "\(scheme)_\($0)" }
            }
    }
}

extension ClientKeys: CustomStringConvertible {
    /// The names in the conf file.
    public var description: String {
        kinds.map { kind in
            switch kind {
            case .p256: "p256"
            case .p384: "p384"
            case .p521: "p521"
            case .ed25519: "ed25519"
            case .rsa(let bits): "rsa\(bits)"
            }
        }.joined(separator: ", ")
    }
}
