internal import Encoding
internal import Vocabulary

/// The platform's statement about a hardware key.
public enum KeyAttestation: Equatable, Sendable {
    /// On iOS: what `attestKey(_:clientDataHash:)` returns, CBOR.
    case appAttest([UInt8])
    /// On Android: what `getCertificateChain` returns, in DER, leaf first.
    case certificates([[UInt8]])

    fileprivate var json: String {
        switch self {
        case .appAttest(let bytes): #""\#(Base64URL.encode(bytes))""#
        case .certificates(let chain): chain.json
        }
    }
}

extension [[UInt8]] {
    /// A JSON array of texts in base64url.
    var json: String { "[" + map { #""\#(Base64URL.encode($0))""# }.joined(separator: ",") + "]" }
}

/// The form of the client data with which the hardware key is attested. The service configures it for each app.
public enum ClientDataForm: String, CaseIterable, Sendable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)); on Android UTF-8(nonce), because a challenge need not be a hash.
    case nonce
    /// SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of the certificate key)). The attestation is also
    /// for that key, which must be bound first. On Android SHA-256(nonce bytes || "KEYPAIR_MTLS"), and the hardware key
    /// itself is that certificate key.
    case dsr

    /// Returns the bytes for `attestKey(_:clientDataHash:)` or `setAttestationChallenge`: 32, except in the form `nonce`
    /// on Android.
    ///
    /// - Parameter point: The point of the certificate key.
    func hash(_ nonce: EnrolmentNonce, _ tag: HardwareKeyTag, point: [UInt8]) -> [UInt8] {
        switch (self, tag.isChosen) {
        case (.nonceAndTag, _): ContentHash.sha256(Array((nonce.text + tag.text).utf8))
        case (.nonce, false): ContentHash.sha256(Array(nonce.text.utf8))
        case (.nonce, true): Array(nonce.text.utf8)
        case (.dsr, false):
            ContentHash.sha256(
                ContentHash.sha256(nonce.bytes + Array("INTEGRITY".utf8)) + ContentHash.sha256(point))
        case (.dsr, true): ContentHash.sha256(nonce.bytes + Array("KEYPAIR_MTLS".utf8))
        }
    }

    /// Returns the content of `POST /instance-initialization`. All values are base64url, which needs no escapes.
    func initialization(
        _ nonce: EnrolmentNonce, _ tag: HardwareKeyTag, attestation: KeyAttestation, point: [UInt8]
    ) -> [UInt8] {
        var text =
            #"{"nonce":"\#(nonce.text)","hardware_key_tag":"\#(tag.text)","key_attestation":\#(attestation.json)"#
        if self == .dsr, !tag.isChosen { text += #","mtls_public_key":"\#(Base64URL.encode(point))""# }
        return Array((text + "}").utf8)
    }
}

/// The hardware key tag by which the service names an app instance.
struct HardwareKeyTag: Equatable, Sendable {
    /// In base64url.
    let text: String
    /// Whether the app has chosen the tag, as on Android. On iOS it is the key id.
    let isChosen: Bool

    init(_ keyID: KeyID, chosen: [UInt8]?) {
        text = Base64URL.encode(chosen ?? keyID.bytes)
        isChosen = chosen != nil
    }
}
