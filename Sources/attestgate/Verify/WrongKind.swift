internal import Attestation
internal import Cryptography

/// Finds out whether somebody gave one thing for another.
struct WrongKind {
    enum Kind: String {
        case attestation
        case assertion
        case receipt
    }

    /// Nil if the bytes are not one of the other kinds.
    let explanation: String?

    init(_ bytes: [UInt8], expected: Kind, _ library: LibraryContext) {
        guard let kind = Self.kind(of: bytes, library) else {
            explanation = Self.otherwise(bytes)
            return
        }
        let article = kind == .receipt ? "a" : "an"
        explanation =
            kind == expected
            ? nil
            : "This is \(article) \(kind.rawValue) instead of \(Self.name(expected)): "
                + "use `attestgate verify \(kind.rawValue)`."
    }

    private static func name(_ kind: Kind) -> String { kind == .receipt ? "a receipt" : "an \(kind.rawValue)" }

    private static func kind(of bytes: [UInt8], _ library: LibraryContext) -> Kind? {
        let span = bytes.span
        if (try? AttestationObject(span)) != nil { return .attestation }
        if (try? Assertion(span)) != nil { return .assertion }
        if (try? SignedMessage(ber: span, library)) != nil { return .receipt }
        return nil
    }

    private static func otherwise(_ bytes: [UInt8]) -> String? {
        switch bytes.count {
        case 0: return "The input is empty."
        case 32: return "This has 32 bytes: perhaps a key id or a hash."
        case 65 where bytes[0] == 0x04: return "This is a public key."
        default: break
        }
        let span = bytes.span
        if (AuthenticatorData.fixedLength...512).contains(bytes.count),
            (try? AuthenticatorData(assertion: span, in: 0..<bytes.count)) != nil
        {
            return "This is only the authenticator data, without the surrounding map."
        }
        return nil
    }
}
