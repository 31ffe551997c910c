internal import COpenSSL

extension PublicKey {
    /// The kinds that something is decided by.
    public enum Kind: Equatable, Sendable {
        case rsa(bits: Int)
        case p256
        case p384
        case other
    }

    public var kind: Kind {
        if isRSA { return .rsa(bits: Int(EVP_PKEY_get_bits(pointer))) }
        return switch curve {
        case NID_X9_62_prime256v1: .p256
        case NID_secp384r1: .p384
        default: .other
        }
    }

    /// Whether the key lies on P-256.
    public var isP256: Bool { curve == NID_X9_62_prime256v1 }

    /// Nil if the key is of no elliptic curve that has a name.
    private var curve: Int32? {
        guard isElliptic else { return nil }
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1 else { return nil }
        return OBJ_txt2nid(name)
    }
}
