public import Vocabulary

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
