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
