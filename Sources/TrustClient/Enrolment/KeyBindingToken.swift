internal import Encoding
internal import RequestProof
internal import Vocabulary

#if canImport(CryptoKit)
    internal import CryptoKit
#else
    internal import Cryptography
#endif

/// The JWT by which a hardware key delegates its trust to a certificate key. It is created, asserted and then signed.
struct KeyBindingToken: Equatable, Sendable {
    /// The lifetime in the token, in seconds from `iat`: the service's maximum.
    static let life: Int64 = 300

    let service: EnrolmentServiceAddress
    let nonce: EnrolmentNonce
    /// The hardware key tag, in base64url.
    let tag: String
    /// The point of the certificate key, 65 bytes.
    let point: [UInt8]
    /// The admission token: a JWS in compact form, or nil.
    let admissionToken: String?

    private var x: String { Base64URL.encode(Array(point[1..<33])) }
    private var y: String { Base64URL.encode(Array(point[33..<65])) }

    /// The SHA-256 thumbprint of the certificate key (RFC 7638 section 3, members in the order of their names).
    var thumbprint: String {
        Base64URL.encode(ContentHash.sha256(Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)))
    }

    var clientData: KeyBindingClientData { KeyBindingClientData(nonce: nonce, tag: tag, thumbprint: thumbprint) }

    /// Returns the bytes that the certificate key signs. No value needs escapes: URLs were checked, and the rest is
    /// base64url.
    ///
    /// - Parameter issuedAt: The time by the service's clock, in seconds since 1970.
    /// - Returns: nil if the assertion is malformed.
    func signingInput(_ proof: KeyBindingProof, issuedAt: Int64) -> String? {
        guard let proof = Self.claims(of: proof) else { return nil }
        let thumbprint = thumbprint
        let header = #"{"alg":"ES256","kid":"\#(thumbprint)","typ":"rp-kb+jwt"}"#
        var claims = #"{"iss":"\#(service.provider)/instance/\#(thumbprint)","aud":"\#(service.provider)","#
        claims += #""iat":\#(issuedAt),"exp":\#(issuedAt + Self.life),"nonce":"\#(nonce.text)","#
        claims += #""hardware_key_tag":"\#(tag)",\#(proof)"#
        if let admissionToken { claims += #""admission_token":"\#(admissionToken)","# }
        claims += #""cnf":{"jwk":{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}}}"#
        return Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
    }

    /// Returns the claims with what the hardware key has signed, each with its comma.
    private static func claims(of proof: KeyBindingProof) -> String? {
        switch proof {
        case .assertion(let assertion):
            guard let entries = AssertionEntries(assertion) else { return nil }
            return #""hardware_signature":"\#(Base64URL.encode(entries.signature))","#
                + #""key_attestation":"\#(Base64URL.encode(entries.authenticatorData))","#
        case .signature(let signature, let counter, let chain):
            return #""hardware_signature":"\#(Base64URL.encode(signature))","counter":\#(counter),"#
                + (chain.map { #""mtls_key_attestation":\#($0.json),"# } ?? "")
        }
    }

    /// Returns the content of `POST /key-binding`.
    ///
    /// - Parameter signature: The signature over the signing input, in DER.
    /// - Returns: nil if the signature is malformed.
    static func content(_ signingInput: String, signature: [UInt8]) -> [UInt8]? {
        // JOSE uses r and s of 32 bytes each (RFC 7518 section 3.4).
        guard let signature = fixedWidth(signature) else { return nil }
        return Array(#"{"assertion":"\#(signingInput).\#(Base64URL.encode(signature))"}"#.utf8)
    }

    private static func fixedWidth(_ signature: [UInt8]) -> [UInt8]? {
        #if canImport(CryptoKit)
            (try? P256.Signing.ECDSASignature(derRepresentation: signature)).map { Array($0.rawRepresentation) }
        #else
            ECDSASignature.fixedWidth(der: signature.span)
        #endif
    }

    /// Returns whether the text has only characters of a JWS in compact form, which need no escapes in JSON.
    static func isAdmissionToken(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 8_192 && parts.count == 3 && parts.allSatisfy { Base64URL.decode(String($0)) != nil }
    }
}

/// The client data of a key binding: what the hardware key signs.
public struct KeyBindingClientData: Equatable, Sendable {
    let nonce: EnrolmentNonce
    let tag: String
    let thumbprint: String

    /// On iOS: the 32 bytes for `generateAssertion(_:clientDataHash:)`. They are the SHA-256 of a JSON object with these
    /// members in this order, without white space.
    public var hash: [UInt8] {
        ContentHash.sha256(Array(#"{"nonce":"\#(nonce.text)","jwk_thumbprint":"\#(thumbprint)"}"#.utf8))
    }

    /// On Android: returns the bytes to sign with `SHA256withECDSA`.
    ///
    /// - Parameter counter: The next value of the app's counter, at least 1.
    public func message(counter: UInt32) -> [UInt8] {
        Array(#"{"nonce":"\#(nonce.text)","jwk_thumbprint":"\#(thumbprint)","counter":\#(counter)}"#.utf8)
    }

    /// On Android: the argument of `setAttestationChallenge` for the certificate key. A new key is generated with it.
    public var certificateKeyChallenge: [UInt8] { ContentHash.sha256(Array((nonce.text + tag).utf8)) }
}

/// The hardware key's consent to a key binding.
public enum KeyBindingProof: Equatable, Sendable {
    /// On iOS: the assertion, CBOR.
    case assertion([UInt8])
    /// On Android: the ECDSA signature over `KeyBindingClientData.message` in DER, the counter in it, and the certificates
    /// of the certificate key in DER, leaf first, if it is attested.
    case signature([UInt8], counter: UInt32, certificateKey: [[UInt8]]?)
}
