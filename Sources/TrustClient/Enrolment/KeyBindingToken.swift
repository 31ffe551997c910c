#if canImport(CryptoKit)
    internal import CryptoKit
#else
    internal import Cryptography
#endif
internal import RequestProof
internal import Vocabulary

/// The JWT by which a hardware key hands its trust to a certificate key: made, asserted, then signed.
struct KeyBindingToken: Equatable, Sendable {
    /// The lifetime that the service is sent, in seconds from `iat`: the most it takes.
    static let life: Int64 = 300

    let service: EnrolmentServiceAddress
    let nonce: EnrolmentNonce
    let hardwareKeyID: KeyID
    /// Of the certificate key: 65 bytes.
    let point: [UInt8]
    /// A JWS in compact form, or nil.
    let admissionToken: String?

    private var x: String { Base64URL.encode(Array(point[1..<33])) }
    private var y: String { Base64URL.encode(Array(point[33..<65])) }

    /// Of the certificate key, with SHA-256 (RFC 7638 section 3: members in the order of their names).
    var thumbprint: String {
        Base64URL.encode(ContentHash.sha256(Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)))
    }

    /// What the hardware key signs: the hash of these bytes, this order, no white space.
    var clientDataHash: [UInt8] {
        ContentHash.sha256(Array(#"{"nonce":"\#(nonce.text)","jwk_thumbprint":"\#(thumbprint)"}"#.utf8))
    }

    /// What the certificate key signs. Nothing that is put in needs escapes: URLs are checked, the rest is base64url.
    ///
    /// - Parameter issuedAt: by the service's clock, in seconds since 1970.
    func signingInput(_ assertion: AssertionEntries, issuedAt: Int64) -> String {
        let thumbprint = thumbprint
        let header = #"{"alg":"ES256","kid":"\#(thumbprint)","typ":"rp-kb+jwt"}"#
        var claims = #"{"iss":"\#(service.provider)/instance/\#(thumbprint)","aud":"\#(service.provider)","#
        claims += #""iat":\#(issuedAt),"exp":\#(issuedAt + Self.life),"nonce":"\#(nonce.text)","#
        claims += #""hardware_key_tag":"\#(hardwareKeyID.tag)","#
        claims += #""hardware_signature":"\#(Base64URL.encode(assertion.signature))","#
        claims += #""key_attestation":"\#(Base64URL.encode(assertion.authenticatorData))","#
        if let admissionToken { claims += #""admission_token":"\#(admissionToken)","# }
        claims += #""cnf":{"jwk":{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"}}}"#
        return Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
    }

    /// The content of `POST /key-binding`.
    ///
    /// - Parameter signature: over the signing input, in DER; nil comes of what is none.
    static func content(_ signingInput: String, signature: [UInt8]) -> [UInt8]? {
        // JOSE has r and s in 32 bytes each (RFC 7518 section 3.4).
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

    /// Whether it has the characters of a JWS in compact form, and so can stand in JSON as it is.
    static func isAdmissionToken(_ text: String) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 8_192 && parts.count == 3 && parts.allSatisfy { Base64URL.decode(String($0)) != nil }
    }
}
