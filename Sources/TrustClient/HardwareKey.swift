internal import RequestProof
public import Vocabulary

/// The attested key of this phone, which signs and never leaves its hardware.
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
    /// The SHA-256 of the key's point: on iOS the key's name, decoded.
    var keyID: KeyID { get }

    /// Signs, and moves the key's counter on.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the assertion as the platform gives it, CBOR on iOS.
    func assertion(clientDataHash: [UInt8]) async throws -> [UInt8]
}

extension KeyID {
    /// - Parameter text: base64 with padding, as `DCAppAttestService.generateKey` returns it; nil if it is not of 32 bytes.
    public init?(base64 text: String) {
        var bytes: [UInt8] = []
        let characters = Array(text.utf8)
        guard characters.count == 44, Base64.decode(characters.span, appendingTo: &bytes) else { return nil }
        self.init(digest: bytes.span)
    }

    /// Base64 with padding: the parameter `keyid` of a proof.
    public var base64: String {
        var text: [UInt8] = []
        let bytes = bytes
        Base64.encode(bytes.span, appendingTo: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

/// The platform's maker of attested keys.
///
/// On iOS it is `DCAppAttestService` with its errors sorted:
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
    /// Makes a key in the phone's hardware.
    func generateKey() async throws -> KeyID

    /// Has the platform vouch for a key. It does so once for each key.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the attestation as the platform gives it, CBOR on iOS.
    func attestation(of keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8]

    /// Signs with an attested key, and moves its counter on.
    ///
    /// - Parameter clientDataHash: 32 bytes.
    /// - Returns: the assertion as the platform gives it, CBOR on iOS.
    func assertion(by keyID: KeyID, clientDataHash: [UInt8]) async throws -> [UInt8]
}

/// Why the platform made nothing. What an `Attestor` throws besides ends the enrolment as it is; it can be gone on with.
public enum AttestorFault: Error, Equatable, Sendable, CaseIterable {
    /// The key is gone, of another installation, or was attested before (`DCError.invalidKey`): a new one is needed.
    case keyLost
    /// The platform's service cannot be reached (`DCError.serverUnavailable`): later, with the same key.
    case unavailable
    /// Not on this system, or not in this process, an app extension for example.
    case unsupported
}

/// The key of the client certificate, `keypair_mTLS`: P-256, in the phone's hardware.
///
/// On iOS a `SecKey` of the Secure Enclave: `SecKeyCopyExternalRepresentation` of its public half is the point, and
/// `SecKeyCreateSignature` with `.ecdsaSignatureMessageX962SHA256` signs.
public protocol CertificateKey: Sendable {
    /// The public half: the uncompressed point, 65 bytes.
    var point: [UInt8] { get }

    /// - Returns: the ECDSA signature over the SHA-256 of the message, in DER (X9.62).
    func signature(over message: [UInt8]) async throws -> [UInt8]
}
