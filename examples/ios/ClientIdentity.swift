import Foundation
import TrustClient

#if canImport(DeviceCheck)
    import Security
#endif

/// The client certificate in the keychain.
enum ClientIdentity {
    struct Failure: Error { let status: OSStatus }

    /// Stores the leaf: the keychain joins a certificate and its private key to an identity.
    static func store(_ certificate: EnrolledCertificate) throws {
        guard let leaf = SecCertificateCreateWithData(nil, Data(certificate.chain[0]) as CFData) else {
            throw Failure(status: errSecItemNotFound)
        }
        // Certificates have no kSecAttrApplicationTag: with it SecItemAdd returns errSecNoSuchAttr.
        let attributes: [String: Any] = [
            kSecClass as String: kSecClassCertificate,
            kSecValueRef as String: leaf,
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        let status = SecItemAdd(attributes as CFDictionary, nil)
        guard status == errSecSuccess || status == errSecDuplicateItem else { throw Failure(status: status) }
    }

    /// Returns the identity of exactly this certificate: after renewals one key has several.
    static func find(_ leaf: [UInt8]) throws -> SecIdentity {
        let query: [String: Any] = [
            kSecClass as String: kSecClassIdentity,
            kSecMatchLimit as String: kSecMatchLimitAll,
            kSecReturnRef as String: true,
        ]
        var items: CFTypeRef?
        let status = SecItemCopyMatching(query as CFDictionary, &items)
        guard status == errSecSuccess, let identities = items as? [SecIdentity] else { throw Failure(status: status) }
        for identity in identities {
            var certificate: SecCertificate?
            guard SecIdentityCopyCertificate(identity, &certificate) == errSecSuccess, let certificate,
                [UInt8](SecCertificateCopyData(certificate) as Data) == leaf
            else { continue }
            return identity
        }
        throw Failure(status: errSecItemNotFound)
    }
}

final class GatewayDelegate: NSObject, URLSessionTaskDelegate {
    private let identity: SecIdentity

    init(_ identity: SecIdentity) { self.identity = identity }

    func urlSession(
        _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        guard challenge.protectionSpace.authenticationMethod == NSURLAuthenticationMethodClientCertificate else {
            return completionHandler(.performDefaultHandling, nil)
        }
        completionHandler(
            .useCredential, URLCredential(identity: identity, certificates: nil, persistence: .forSession))
    }

    /// Redirects are not followed: a proof is for one path.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
