import Foundation
import TrustClient

#if canImport(DeviceCheck)
    import Security
#endif

/// The certificate key, in the Secure Enclave.
struct EnclaveKey: CertificateKey {
    struct Failure: Error { let status: OSStatus }

    let tag: String
    let point: [UInt8]

    /// Finds the key with this tag, or makes it.
    init(tag: String) throws {
        self.tag = tag
        let key = try Self.find(tag) ?? Self.make(tag)
        var error: Unmanaged<CFError>?
        guard let publicKey = SecKeyCopyPublicKey(key),
            let bytes = SecKeyCopyExternalRepresentation(publicKey, &error) as Data?
        else { throw error?.takeRetainedValue() as (any Error)? ?? Failure(status: errSecItemNotFound) }
        point = [UInt8](bytes)  // X9.63: 04, x, y
    }

    func signature(over message: [UInt8]) async throws -> [UInt8] {
        guard let key = try Self.find(tag) else { throw Failure(status: errSecItemNotFound) }
        var error: Unmanaged<CFError>?
        guard
            let signature = SecKeyCreateSignature(
                key, .ecdsaSignatureMessageX962SHA256, Data(message) as CFData, &error) as Data?
        else { throw error?.takeRetainedValue() as (any Error)? ?? Failure(status: errSecItemNotFound) }
        return [UInt8](signature)
    }

    private static func find(_ tag: String) throws -> SecKey? {
        let query: [String: Any] = [
            kSecClass as String: kSecClassKey,
            kSecAttrApplicationTag as String: Data(tag.utf8),
            kSecAttrKeyType as String: kSecAttrKeyTypeECSECPrimeRandom,
            kSecMatchLimit as String: kSecMatchLimitAll,
            kSecReturnRef as String: true,
        ]
        var items: CFTypeRef?
        let status = SecItemCopyMatching(query as CFDictionary, &items)
        if status == errSecItemNotFound { return nil }
        // Any other error is thrown: a locked phone must not get a second key.
        guard status == errSecSuccess, let keys = items as? [SecKey] else { throw Failure(status: status) }
        return keys.first
    }

    private static func make(_ tag: String) throws -> SecKey {
        var error: Unmanaged<CFError>?
        guard
            let access = SecAccessControlCreateWithFlags(
                nil, kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly, .privateKeyUsage, &error)
        else { throw error?.takeRetainedValue() as (any Error)? ?? Failure(status: errSecItemNotFound) }
        let attributes: [String: Any] = [
            kSecAttrKeyType as String: kSecAttrKeyTypeECSECPrimeRandom,
            kSecAttrKeySizeInBits as String: 256,
            kSecAttrTokenID as String: kSecAttrTokenIDSecureEnclave,
            kSecPrivateKeyAttrs as String: [
                kSecAttrIsPermanent as String: true,
                kSecAttrApplicationTag as String: Data(tag.utf8),
                kSecAttrAccessControl as String: access,
            ] as [String: Any],
        ]
        guard let key = SecKeyCreateRandomKey(attributes as CFDictionary, &error) else {
            throw error?.takeRetainedValue() as (any Error)? ?? Failure(status: errSecItemNotFound)
        }
        return key
    }
}
