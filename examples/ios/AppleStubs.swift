// swift-format-ignore-file: AlwaysUseLowerCamelCase
import Foundation

// Declarations of Apple's interfaces that the other files use, so that they compile where there is no Apple SDK. None of them
// does anything. Written from Apple's documentation; only a compiler on a Mac can confirm them. An app does not need this file.
#if !canImport(DeviceCheck)
    // MARK: - DeviceCheck

    final class DCAppAttestService: Sendable {
        static let shared = DCAppAttestService()
        let isSupported = false
        func generateKey() async throws -> String { throw DCError(code: .featureUnsupported) }
        func attestKey(_ keyId: String, clientDataHash: Data) async throws -> Data {
            throw DCError(code: .featureUnsupported)
        }
        func generateAssertion(_ keyId: String, clientDataHash: Data) async throws -> Data {
            throw DCError(code: .featureUnsupported)
        }
    }

    struct DCError: Error {
        enum Code { case unknownSystemFailure, featureUnsupported, invalidInput, invalidKey, serverUnavailable }
        let code: Code
    }

    // MARK: - Security

    typealias CFString = String
    typealias CFData = Data
    typealias CFDictionary = [String: Any]
    typealias CFTypeRef = AnyObject
    typealias OSStatus = Int32
    final class CFError: Error {}
    final class SecKey {}
    final class SecCertificate {}
    final class SecIdentity {}
    final class SecAccessControl {}

    struct SecAccessControlCreateFlags: OptionSet {
        let rawValue: Int
        static let privateKeyUsage = SecAccessControlCreateFlags(rawValue: 1 << 30)
    }

    struct SecKeyAlgorithm {
        static let ecdsaSignatureMessageX962SHA256 = SecKeyAlgorithm()
    }

    let kSecClass = "class"
    let kSecClassKey = "keys"
    let kSecClassCertificate = "cert"
    let kSecClassIdentity = "idnt"
    let kSecAttrAccessControl = "accc"
    let kSecAttrAccessible = "pdmn"
    let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly = "cku"
    let kSecAttrApplicationTag = "atag"
    let kSecAttrIsPermanent = "perm"
    let kSecAttrKeySizeInBits = "bsiz"
    let kSecAttrKeyType = "type"
    let kSecAttrKeyTypeECSECPrimeRandom = "73"
    let kSecAttrTokenID = "tkid"
    let kSecAttrTokenIDSecureEnclave = "com.apple.setoken"
    let kSecMatchLimit = "m_Limit"
    let kSecMatchLimitAll = "m_LimitAll"
    let kSecPrivateKeyAttrs = "private"
    let kSecReturnRef = "r_Ref"
    let kSecValueRef = "v_Ref"
    let errSecSuccess: OSStatus = 0
    let errSecDuplicateItem: OSStatus = -25_299
    let errSecItemNotFound: OSStatus = -25_300

    typealias ErrorSlot = UnsafeMutablePointer<Unmanaged<CFError>?>?
    func SecAccessControlCreateWithFlags(
        _ allocator: AnyObject?, _ protection: CFTypeRef, _ flags: SecAccessControlCreateFlags, _ error: ErrorSlot
    ) -> SecAccessControl? { nil }
    func SecAccessControlCreateWithFlags(
        _ allocator: AnyObject?, _ protection: String, _ flags: SecAccessControlCreateFlags, _ error: ErrorSlot
    ) -> SecAccessControl? { nil }
    func SecKeyCreateRandomKey(_ parameters: CFDictionary, _ error: ErrorSlot) -> SecKey? { nil }
    func SecKeyCopyPublicKey(_ key: SecKey) -> SecKey? { nil }
    func SecKeyCopyExternalRepresentation(_ key: SecKey, _ error: ErrorSlot) -> CFData? { nil }
    func SecKeyCreateSignature(
        _ key: SecKey, _ algorithm: SecKeyAlgorithm, _ data: CFData, _ error: ErrorSlot
    ) -> CFData? { nil }
    func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
        errSecDuplicateItem
    }
    func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
        errSecItemNotFound
    }
    func SecItemDelete(_ query: CFDictionary) -> OSStatus { errSecItemNotFound }
    func SecCertificateCreateWithData(_ allocator: AnyObject?, _ data: CFData) -> SecCertificate? { nil }
    func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { Data() }
    func SecIdentityCopyCertificate(
        _ identity: SecIdentity, _ certificate: UnsafeMutablePointer<SecCertificate?>
    ) -> OSStatus { errSecItemNotFound }

    // MARK: - URL loading

    let NSURLAuthenticationMethodClientCertificate = "NSURLAuthenticationMethodClientCertificate"

    struct URLRequest: Sendable {
        init(url: URL) {}
        var httpMethod: String?
        var httpBody: Data?
        func setValue(_ value: String?, forHTTPHeaderField field: String) {}
    }

    class URLResponse: @unchecked Sendable {}
    final class HTTPURLResponse: URLResponse, @unchecked Sendable {
        let statusCode = 0
        func value(forHTTPHeaderField field: String) -> String? { nil }
    }

    final class URLSessionConfiguration {
        static var ephemeral: URLSessionConfiguration { URLSessionConfiguration() }
    }

    protocol URLSessionDelegate: AnyObject {}
    protocol URLSessionTaskDelegate: URLSessionDelegate {}
    class URLSessionTask {
        func resume() {}
    }

    final class URLSession: @unchecked Sendable {
        enum AuthChallengeDisposition { case useCredential, performDefaultHandling }
        static let shared = URLSession(configuration: .ephemeral, delegate: nil, delegateQueue: nil)
        init(configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?, delegateQueue: AnyObject?) {}
        func dataTask(
            with request: URLRequest, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
        ) -> URLSessionTask { URLSessionTask() }
    }

    struct URLProtectionSpace {
        let authenticationMethod: String
    }

    final class URLAuthenticationChallenge {
        let protectionSpace = URLProtectionSpace(authenticationMethod: "")
    }

    final class URLCredential {
        enum Persistence { case forSession }
        init(identity: SecIdentity, certificates: [Any]?, persistence: Persistence) {}
    }

    struct URLError: Error {
        enum Code { case badServerResponse }
        init(_ code: Code) {}
    }
#endif
