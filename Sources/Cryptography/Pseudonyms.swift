public import Vocabulary

/// Pseudonyms of people in the registry: HMAC-SHA-256 over issuer and subject (RFC 7519 sections 4.1.1 and 4.1.2). The
/// registry keeps nothing else about a person.
///
/// With another key, a subject's devices can no longer be found. Belongs to the thread of the key's library context.
public struct SubjectPseudonyms {
    private let key: AuthenticationKey

    public init(_ key: AuthenticationKey) {
        self.key = key
    }

    /// Returns the pseudonym of a subject.
    ///
    /// Two issuers may use the same subject for different people, so the issuer is included. Its length precedes it, so
    /// that no byte can move from one to the other.
    public func pseudonym(ofSubject subject: [UInt8], issuer: String) throws(CryptographyError) -> Digest256 {
        let issuer = Array(issuer.utf8)
        let message = Array("\(issuer.count):".utf8) + issuer + subject
        return try key.code(of: message.span)
    }
}

/// Names of devices in logs: the first 8 bytes of HMAC-SHA-256 over the hardware key's id. A device's name is constant.
/// It reveals neither the key nor the device's pseudonym at services.
///
/// Belongs to the thread of the key's library context.
public struct DeviceLogNames {
    private let key: AuthenticationKey

    public init(_ key: AuthenticationKey) {
        self.key = key
    }

    /// Returns the log name of a device.
    ///
    /// - Parameter device: The key id of its hardware key.
    public func name(of device: KeyID) throws(CryptographyError) -> UInt64 {
        let bytes = device.bytes
        let code = try key.code(of: bytes.span)
        var name: UInt64 = 0
        for index in 0..<8 { name = name << 8 | UInt64(code.span[index]) }
        return name
    }
}
