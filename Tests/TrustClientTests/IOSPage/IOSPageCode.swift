import Foundation
import TrustClient
import Vocabulary

// The code of docs/ios.md, word for word: IOSPageTests compares.

struct AppAttest: Attestor {
    func generateKey() async throws -> KeyID {
        guard DCAppAttestService.shared.isSupported else { throw AttestorFault.unsupported }
        let name = try await sortingErrors { try await DCAppAttestService.shared.generateKey() }
        // The name is base64 of the key id: `base64` below gives it back.
        guard let keyID = KeyID(base64: name) else { throw AttestorFault.unsupported }
        return keyID
    }

    func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
        let hash = Data(clientDataHash)
        return [UInt8](
            try await sortingErrors {
                try await DCAppAttestService.shared.attestKey(keyID.base64, clientDataHash: hash)
            })
    }

    func assertion(by keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
        let hash = Data(clientDataHash)
        return [UInt8](
            try await sortingErrors {
                try await DCAppAttestService.shared.generateAssertion(keyID.base64, clientDataHash: hash)
            })
    }

    private func sortingErrors<Made>(_ call: () async throws -> Made) async throws -> Made {
        do {
            return try await call()
        } catch let error as DCError {
            switch error.code {
            case .invalidKey: throw AttestorFault.keyLost
            case .serverUnavailable: throw AttestorFault.unavailable
            case .featureUnsupported: throw AttestorFault.unsupported
            default: throw error
            }
        }
    }
}

/// The same key, for request proofs.
struct AppAttestKey: HardwareKey {
    let keyID: KeyID

    func assertion(clientDataHash: [UInt8]) async throws -> [UInt8] {
        try await AppAttest().assertion(by: keyID, clientDataHash: clientDataHash)
    }
}

struct EnclaveKey: CertificateKey {
    struct Failure: Error { let status: OSStatus }

    let tag: String
    let point: [UInt8]

    /// Opens the key with this tag, or makes it.
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
        // Locked phones and missing entitlements are no reason to make a second key.
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

/// What survives the app: one file.
struct Phone: Codable {
    var record: [UInt8]?
    var keyTag = UUID().uuidString
    /// While a rotation is under way.
    var nextKeyTag: String?
    /// DER, the leaf first.
    var chain: [[UInt8]] = []
    var expiresAt: Int64 = 0
}

/// One for the app: two enrolments at a time would spend each other's nonces and keys.
actor Enrolment {
    private let service: EnrolmentService
    private let file: URL
    private var phone: Phone
    private var underWay: Task<Phone, any Error>?

    init(service: EnrolmentService, file: URL) throws {
        self.service = service
        self.file = file
        do {
            phone = try JSONDecoder().decode(Phone.self, from: Data(contentsOf: file))
        } catch CocoaError.fileReadNoSuchFile {
            // Nothing else is a reason to begin anew: before the first unlock, the file is there and cannot be read.
            phone = Phone()
        }
    }

    /// The first time, to renew the certificate, and to rotate its key.
    func enrol(rotating: Bool = false, admissionToken: String? = nil) async throws -> Phone {
        // An actor lets others in wherever it waits: who comes meanwhile waits for what is under way.
        while let task = underWay {
            let outcome = await task.result
            if !rotating, admissionToken == nil { return try outcome.get() }
        }
        let task = Task {
            defer { underWay = nil }
            return try await enrolAlone(rotating: rotating, admissionToken: admissionToken)
        }
        underWay = task
        return try await task.value
    }

    private func enrolAlone(rotating: Bool, admissionToken: String?) async throws -> Phone {
        if rotating, phone.nextKeyTag == nil {
            phone.nextKeyTag = UUID().uuidString
            try store()
        }
        let tag = phone.nextKeyTag ?? phone.keyTag
        let client = EnrolmentClient(attestor: AppAttest(), clock: { Int64(Date().timeIntervalSince1970) })
        let certificate = try await client.enrol(
            phone.record.flatMap { EnrolmentRecord(decoding: $0) } ?? EnrolmentRecord(service: service),
            key: try EnclaveKey(tag: tag), admissionToken: admissionToken,
            save: { record in try await self.keep(record) },
            send: { request in try await Self.send(request) })
        try ClientIdentity.store(certificate)
        phone.keyTag = tag
        phone.nextKeyTag = nil
        phone.chain = certificate.chain
        phone.expiresAt = certificate.expiresAt
        try store()
        return phone
    }

    private func keep(_ record: EnrolmentRecord) throws {
        phone.record = try record.encoded()
        try store()
    }

    private func store() throws {
        try JSONEncoder().encode(phone).write(to: file, options: .atomic)
    }

    private static func send(_ request: EnrolmentRequest) async throws -> EnrolmentAnswer {
        guard let url = URL(string: request.url) else { throw URLError(.badServerResponse) }
        var message = URLRequest(url: url)
        message.httpMethod = request.method
        if let content = request.content {
            message.httpBody = Data(content)
            message.setValue("application/json", forHTTPHeaderField: "Content-Type")
        }
        let (data, response) = try await URLSession.shared.answer(to: message)
        return EnrolmentAnswer(
            status: response.statusCode, date: response.value(forHTTPHeaderField: "Date"),
            retryAfter: response.value(forHTTPHeaderField: "Retry-After"), content: [UInt8](data))
    }
}

extension URLSession {
    /// `data(for:)` for iOS 14.
    func answer(to request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        try await withCheckedThrowingContinuation { continuation in
            let task = dataTask(with: request) { data, response, error in
                if let data, let response = response as? HTTPURLResponse {
                    continuation.resume(returning: (data, response))
                } else {
                    continuation.resume(throwing: error ?? URLError(.badServerResponse))
                }
            }
            task.resume()
        }
    }
}

enum ClientIdentity {
    struct Failure: Error { let status: OSStatus }

    /// Puts the leaf beside its key: the keychain makes an identity of a certificate and a private key that fit.
    static func store(_ certificate: EnrolledCertificate) throws {
        guard let leaf = SecCertificateCreateWithData(nil, Data(certificate.chain[0]) as CFData) else {
            throw Failure(status: errSecItemNotFound)
        }
        // No kSecAttrApplicationTag: certificates have none, and errSecNoSuchAttr would be the answer.
        let attributes: [String: Any] = [
            kSecClass as String: kSecClassCertificate,
            kSecValueRef as String: leaf,
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        let status = SecItemAdd(attributes as CFDictionary, nil)
        guard status == errSecSuccess || status == errSecDuplicateItem else { throw Failure(status: status) }
    }

    /// The identity of this very certificate: renewals leave several for one key.
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

    /// A proof is for one path: what a redirect leads to takes a proof of its own.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}

struct Gateway {
    private let origin: String
    private let session: URLSession
    private let client: AttestedClient<AppAttestKey>

    /// - Parameter origin: as in `https://api.example.org`.
    init?(origin: String, phone: Phone) throws {
        guard let keyID = phone.record.flatMap({ EnrolmentRecord(decoding: $0) })?.hardwareKeyID,
            let leaf = phone.chain.first
        else { return nil }
        self.origin = origin
        session = URLSession(
            configuration: .ephemeral, delegate: GatewayDelegate(try ClientIdentity.find(leaf)), delegateQueue: nil)
        client = AttestedClient(key: AppAttestKey(keyID: keyID), clock: { Int64(Date().timeIntervalSince1970) })
    }

    /// - Parameter isIdempotent: whether the service may execute it twice.
    func post(_ json: Data, to path: String, isIdempotent: Bool = false) async throws -> (Data, HTTPURLResponse) {
        guard let url = URL(string: origin + path), let target = RequestTarget(url: url.absoluteString) else {
            throw URLError(.badServerResponse)
        }
        let request = try AttestedRequest(
            method: "POST", target: target, fields: [("Content-Type", "application/json")],
            content: .bytes([UInt8](json)))
        return try await client.perform(
            request, isIdempotent: isIdempotent,
            fetchChallenge: {
                guard let url = URL(string: origin + ProofSession.challengePath) else {
                    throw URLError(.badServerResponse)
                }
                return try await send(URLRequest(url: url)).answer
            },
            send: { fields in
                var message = URLRequest(url: url)
                message.httpMethod = "POST"
                message.httpBody = json
                message.setValue("application/json", forHTTPHeaderField: "Content-Type")
                for (name, value) in fields.lines { message.setValue(value, forHTTPHeaderField: name) }
                return try await send(message)
            })
    }

    private func send(
        _ message: URLRequest
    ) async throws -> (answer: GatewayAnswer, response: (Data, HTTPURLResponse)) {
        let (data, response) = try await session.answer(to: message)
        let answer = GatewayAnswer(
            status: response.statusCode,
            acceptSignature: response.value(forHTTPHeaderField: "Accept-Signature").map { [$0] } ?? [],
            date: response.value(forHTTPHeaderField: "Date"), content: [UInt8](data))
        return (answer, (data, response))
    }
}
