internal import Encoding
internal import RequestProof
public import Vocabulary

/// The attested key of this phone, which never leaves its hardware.
///
/// On iOS it is three lines around `DCAppAttestService`:
///
/// ```swift
/// struct AppAttestKey: HardwareKey {
///     let keyID: KeyID
///     let name: String  // what generateKey() returned; keyID is KeyID(base64: name)
///     func assertion(clientDataHash: [UInt8]) async throws -> [UInt8] {
///         [UInt8](try await DCAppAttestService.shared.generateAssertion(name, clientDataHash: Data(clientDataHash)))
///     }
/// }
/// ```
public protocol HardwareKey: Sendable {
    /// The SHA-256 of the key's point. On iOS it is the key's name, decoded.
    var keyID: KeyID { get }

    /// Signs and increments the key's counter.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the platform's assertion, CBOR on iOS.
    func assertion(clientDataHash: [UInt8]) async throws -> [UInt8]
}

extension KeyID {
    /// Parses a key id.
    ///
    /// - Parameter text: Base64 with padding, as `DCAppAttestService.generateKey` returns it.
    /// - Returns: nil unless the text encodes 32 bytes.
    public init?(base64 text: String) {
        guard text.utf8.count == 44, let bytes = Base64.decode(text) else { return nil }
        self.init(digest: bytes.span)
    }

    /// The key id in base64 with padding: the parameter `keyid` of a proof.
    public var base64: String { Base64.encode(bytes) }
}

/// The platform's service for attested keys.
///
/// On iOS it is `DCAppAttestService` with its errors translated:
///
/// ```swift
/// struct AppAttest: Attestor {
///     func generateKey() async throws -> KeyID {
///         guard DCAppAttestService.shared.isSupported else { throw AttestorFault.unsupported }
///         guard let keyID = KeyID(base64: try await DCAppAttestService.shared.generateKey()) else {
///             throw AttestorFault.unsupported
///         }
///         return keyID
///     }
///     func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8] {
///         do {
///             return [UInt8](
///                 try await DCAppAttestService.shared.attestKey(
///                     keyID.base64, clientDataHash: Data(clientDataHash)))
///         } catch DCError.invalidKey { throw AttestorFault.keyLost
///         } catch DCError.serverUnavailable { throw AttestorFault.unavailable }
///     }
///     ...
/// ```
public protocol Attestor: Sendable {
    /// Generates a key in the phone's hardware.
    func generateKey() async throws -> KeyID

    /// Requests the platform's attestation of a key. Each key is attested only once.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the platform's attestation, CBOR on iOS.
    func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8]

    /// Signs with an attested key and increments its counter.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the platform's assertion, CBOR on iOS.
    func assertion(by keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8]
}

/// The reason why the platform failed. Any other error of an `Attestor` ends the enrolment, which can be continued.
public enum AttestorFault: Error, Equatable, Sendable, CaseIterable {
    /// The key is lost, of another installation, or was attested before (`DCError.invalidKey`). A new one is needed.
    case keyLost
    /// The platform's service cannot be reached (`DCError.serverUnavailable`). Retry later with the same key.
    case unavailable
    /// App Attest does not exist on this system or in this process, such as an app extension.
    case unsupported
}

/// The key of the client certificate, `keypair_mTLS`: P-256 in the phone's hardware.
///
/// On iOS it is a `SecKey` of the Secure Enclave. `SecKeyCopyExternalRepresentation` of its public key returns the
/// point. `SecKeyCreateSignature` with `.ecdsaSignatureMessageX962SHA256` signs.
public protocol CertificateKey: Sendable {
    /// The public key: the uncompressed point, 65 bytes.
    var point: [UInt8] { get }

    /// Returns the ECDSA signature over the SHA-256 of the message, in DER (X9.62).
    func signature(over message: [UInt8]) async throws -> [UInt8]
}
