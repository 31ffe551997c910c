public import Cryptography

/// What an app hands to `attestKey(_:clientDataHash:)` when it is initialized: configured for each app.
public enum ClientDataFormat: String, Sendable, CaseIterable {
    /// SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)).
    case nonceAndTag = "nonce-and-tag"
    /// SHA-256(UTF-8(nonce)), as deployed wallets do.
    case nonce
    /// SHA-256(SHA-256(nonce bytes || "INTEGRITY") || SHA-256(point of `keypair_mTLS`)), gematik's form: the attestation
    /// speaks for the key already, and the first binding must be of this key. Nonce bytes: the decoded nonce.
    case dsr
}

extension InstanceInitialization {
    /// What the attestation must have been made for.
    ///
    /// - Throws: `memberMissing` or `memberUnknown` if `mtls_public_key` is missing in the form `dsr`, or sent in another,
    ///   which would not speak for it.
    public func clientDataHash(
        _ form: ClientDataFormat, _ library: LibraryContext
    ) throws(EnrolmentFault) -> Digest256 {
        switch (form, mtlsPublicKey) {
        case (.nonceAndTag, nil): return try hash(nonce.text, tag, library)
        case (.nonce, nil): return try hash(nonce.text, [], library)
        case (.dsr, let point?):
            let integrity = try hash(nonce.bytes, Array("INTEGRITY".utf8), library)
            let key = try hash(point, [], library)
            return try hash(integrity.bytes, key.bytes, library)
        case (.dsr, nil): throw .memberMissing(.mtlsPublicKey)
        case (.nonceAndTag, _?), (.nonce, _?): throw .memberUnknown
        }
    }

    private func hash(
        _ first: [UInt8], _ second: [UInt8], _ library: LibraryContext
    ) throws(EnrolmentFault) -> Digest256 {
        try EnrolmentFault.checking { () throws(CryptographyError) in
            try library.sha256(of: first.span, second.span)
        }
    }
}
