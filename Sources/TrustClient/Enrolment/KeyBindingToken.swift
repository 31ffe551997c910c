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
    let hardwareKeyID: KeyID
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

    /// The hash that the hardware key signs: of these bytes in this order, without white space.
    var clientDataHash: [UInt8] {
        ContentHash.sha256(Array(#"{"nonce":"\#(nonce.text)","jwk_thumbprint":"\#(thumbprint)"}"#.utf8))
    }

    /// Returns the bytes that the certificate key signs. No value needs escapes: URLs were checked, and the rest is
    /// base64url.
    ///
    /// - Parameter issuedAt: The time by the service's clock, in seconds since 1970.
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

/// The form of the client data with which the hardware key is attested. The service configures it for each app.
public enum ClientDataForm: String, CaseIterable, Sendable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)).
    case nonce
    /// SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of the certificate key)). The attestation is also
    /// for that key, which must be bound first.
    case dsr

    /// Returns the 32 bytes for `attestKey(_:clientDataHash:)`.
    ///
    /// - Parameter point: The point of the certificate key.
    func hash(_ nonce: EnrolmentNonce, _ hardwareKeyID: KeyID, point: [UInt8]) -> [UInt8] {
        switch self {
        case .nonceAndTag: ContentHash.sha256(Array((nonce.text + hardwareKeyID.tag).utf8))
        case .nonce: ContentHash.sha256(Array(nonce.text.utf8))
        case .dsr:
            ContentHash.sha256(
                ContentHash.sha256(nonce.bytes + Array("INTEGRITY".utf8)) + ContentHash.sha256(point))
        }
    }

    /// Returns the content of `POST /instance-initialization`. All values are base64url, which needs no escapes.
    func initialization(
        _ nonce: EnrolmentNonce, _ hardwareKeyID: KeyID, attestation: [UInt8], point: [UInt8]
    ) -> [UInt8] {
        var text = #"{"nonce":"\#(nonce.text)","hardware_key_tag":"\#(hardwareKeyID.tag)","#
        text += #""key_attestation":"\#(Base64URL.encode(attestation))""#
        if self == .dsr { text += #","mtls_public_key":"\#(Base64URL.encode(point))""# }
        return Array((text + "}").utf8)
    }
}

extension KeyID {
    /// The hardware key tag of an iOS app instance.
    var tag: String { Base64URL.encode(bytes) }
}
