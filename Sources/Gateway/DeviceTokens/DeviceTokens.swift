package import Attestation
internal import Bytes
internal import Cryptography
internal import HTTP
internal import Vocabulary

/// The settings of the device tokens that routes require, the same for all workers.
package struct DeviceTokenSettings: Sendable {
    let demands: DeviceTokenDemands
    let keys: [UInt8]
    let isForwarded: Bool

    /// - Parameters:
    ///   - keys: The issuer's JWK Set, as it was read.
    ///   - isForwarded: Whether services receive the tokens.
    package init(_ demands: DeviceTokenDemands, keys: [UInt8], isForwarded: Bool) {
        self.demands = demands
        self.keys = keys
        self.isForwarded = isForwarded
    }
}

/// The check of device tokens in one worker's requests.
final class DeviceTokens {
    /// A token that was verified for a client's certificate.
    struct Verified {
        let digest: Digest256
        /// In seconds since 1970.
        let end: Int64
        /// `DeviceTokens.version` at that time.
        let version: Int
    }

    /// In lower case.
    private static let name = Array("x-device-token".utf8)

    private var verifier: DeviceTokenVerifier
    /// Grows with each change of the verifier.
    private var version = 0
    private let library: LibraryContext
    let isForwarded: Bool

    init(_ settings: DeviceTokenSettings, _ library: LibraryContext) throws(CryptographyError) {
        // A copy without memory shared with other threads.
        verifier = try DeviceTokenVerifier(settings.demands, keys: settings.keys.map(\.self), library)
        self.library = library
        isForwarded = settings.isForwarded
    }

    /// Judges by the issuer and the keys of a later configuration, so that a key that is taken out of it ends its tokens
    /// on open connections, too.
    func adopt(_ next: DeviceTokens) {
        verifier = next.verifier
        version += 1
    }

    static func isField(_ field: HeaderField, _ bytes: Span<UInt8>) -> Bool {
        field.name == .other && field.nameRange.of(bytes).equals(lowercase: name)
    }

    /// Returns the refusal of a request whose token is absent or not valid for the client's certificate; nil for a
    /// valid one.
    ///
    /// A token that the client has sent before costs a digest and a comparison, until it ends.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - now: In seconds since 1970.
    func refusal(of head: RequestHead, _ bytes: Span<UInt8>, _ client: ClientMemory, now: Int64) -> Refusal? {
        let fields = head.fields.indices.filter { Self.isField(head.fields[$0], bytes) }
        guard let first = fields.first else { return Refusal(.deviceTokenRequired) }
        guard fields.count == 1 else { return Refusal(.deviceTokenInvalid, "there is more than one X-Device-Token") }
        guard let identity = client.identity else {
            return Refusal(.internalError, "a device token without a certificate")
        }
        let value = head.fields[first].valueRange.of(bytes)
        do throws(DeviceTokenFault) {
            let digest = try DeviceTokenFault.checking { () throws(CryptographyError) in
                try library.sha256(of: value)
            }
            if let known = client.deviceToken, known.version == version, known.digest == digest, now < known.end {
                return nil
            }
            let holder = DeviceTokenHolder(thumbprint: identity.thumbprint, key: identity.keyID)
            let token = try verifier.verify(value.indices.map { value[$0] }, of: holder, at: now)
            client.deviceToken = Verified(digest: digest, end: token.end, version: version)
            return nil
        } catch .checkFailed(let error) {
            return Refusal(.internalError, error.description)
        } catch {
            return Refusal(.deviceTokenInvalid, error.reason)
        }
    }
}
