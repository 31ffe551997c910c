public import Vocabulary

/// The names by which a registry knows people, of whom it keeps nothing else: HMAC-SHA-256 over the issuer and the subject
/// of what was shown for them (RFC 7519 sections 4.1.1 and 4.1.2).
///
/// With another key, a subject's devices can no longer be found. Belongs to the thread of the key's library context.
public struct SubjectPseudonyms {
    private let key: AuthenticationKey

    public init(_ key: AuthenticationKey) {
        self.key = key
    }

    /// With the issuer: two of them may have the same subject for two people. Its length goes first, so that no byte can
    /// be moved from one to the other.
    public func pseudonym(ofSubject subject: [UInt8], issuer: String) throws(CryptographyError) -> Digest256 {
        let issuer = Array(issuer.utf8)
        let message = Array("\(issuer.count):".utf8) + issuer + subject
        return try key.code(of: message.span)
    }
}

/// What logs know devices by: the first 8 bytes of HMAC-SHA-256 over the hardware key's id. Always the same for a device,
/// and leading to neither its key nor what services know it by.
///
/// Belongs to the thread of the key's library context.
public struct DeviceLogNames {
    private let key: AuthenticationKey

    public init(_ key: AuthenticationKey) {
        self.key = key
    }

    /// - Parameter device: the key id of its hardware key.
    public func name(of device: KeyID) throws(CryptographyError) -> UInt64 {
        let bytes = device.bytes
        let code = try key.code(of: bytes.span)
        var name: UInt64 = 0
        for index in 0..<8 { name = name << 8 | UInt64(code.span[index]) }
        return name
    }
}
