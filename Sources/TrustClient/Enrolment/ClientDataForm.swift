internal import Vocabulary

/// What the hardware key is attested with: which form a service takes is configured there for each app.
public enum ClientDataForm: String, CaseIterable, Sendable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)).
    case nonce
    /// SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of the certificate key)): the attestation speaks for
    /// that key too, and the first binding must be of it.
    case dsr

    /// For `attestKey(_:clientDataHash:)`: 32 bytes.
    ///
    /// - Parameter point: of the certificate key.
    func hash(_ nonce: EnrolmentNonce, _ hardwareKeyID: KeyID, point: [UInt8]) -> [UInt8] {
        switch self {
        case .nonceAndTag: ContentHash.sha256(Array((nonce.text + hardwareKeyID.tag).utf8))
        case .nonce: ContentHash.sha256(Array(nonce.text.utf8))
        case .dsr:
            ContentHash.sha256(
                ContentHash.sha256(nonce.bytes + Array("INTEGRITY".utf8)) + ContentHash.sha256(point))
        }
    }

    /// The content of `POST /instance-initialization`. Only base64url is put in, which needs no escapes.
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
