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
    let keepsClaims: Bool

    /// - Parameters:
    ///   - keys: The issuer's JWK Set, as it was read.
    ///   - isForwarded: Whether services receive the tokens.
    ///   - keepsClaims: Whether a decision point may be sent the claims.
    package init(_ demands: DeviceTokenDemands, keys: [UInt8], isForwarded: Bool, keepsClaims: Bool = false) {
        self.demands = demands
        self.keys = keys
        self.isForwarded = isForwarded
        self.keepsClaims = keepsClaims
    }
}

/// The check of device tokens in one worker's requests.
final class DeviceTokens {
    /// A token that was verified for a client's certificate. Requests and connections share it.
    final class Verified {
        let digest: Digest256
        /// In seconds since 1970.
        let end: Int64
        /// `DeviceTokens.version` at that time.
        let version: Int
        /// The claims, an object in JSON. Empty if no decision point may be sent them.
        let claims: [UInt8]

        init(_ digest: Digest256, end: Int64, version: Int, claims: [UInt8]) {
            self.digest = digest
            self.end = end
            self.version = version
            self.claims = claims
        }
    }

    enum Outcome {
        /// There is no token.
        case absent
        case verified(Verified)
        case refused(Refusal)
    }

    /// In lower case.
    private static let name = Array("x-device-token".utf8)

    private var verifier: DeviceTokenVerifier
    /// Grows with each change of the verifier.
    private var version = 0
    private let library: LibraryContext
    let isForwarded: Bool
    private let keepsClaims: Bool

    init(_ settings: DeviceTokenSettings, _ library: LibraryContext) throws(CryptographyError) {
        // A copy without memory shared with other threads.
        verifier = try DeviceTokenVerifier(settings.demands, keys: settings.keys.map(\.self), library)
        self.library = library
        isForwarded = settings.isForwarded
        keepsClaims = settings.keepsClaims
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

    /// Verifies the token of a request for the client's certificate.
    ///
    /// A token that the client has sent before costs a digest and a comparison, until it ends.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - now: In seconds since 1970.
    func verify(_ head: RequestHead, _ bytes: Span<UInt8>, _ client: ClientMemory, now: Int64) -> Outcome {
        guard let first = head.fields.firstIndex(where: { Self.isField($0, bytes) }) else { return .absent }
        guard !head.fields[(first + 1)...].contains(where: { Self.isField($0, bytes) }) else {
            return .refused(Refusal(.deviceTokenInvalid, "there is more than one X-Device-Token"))
        }
        guard let identity = client.identity else {
            return .refused(Refusal(.internalError, "a device token without a certificate"))
        }
        let value = head.fields[first].valueRange.of(bytes)
        do throws(DeviceTokenFault) {
            let digest = try DeviceTokenFault.checking { () throws(CryptographyError) in
                try library.sha256(of: value)
            }
            if let known = client.deviceToken, known.version == version, known.digest == digest, now < known.end {
                return .verified(known)
            }
            let holder = DeviceTokenHolder(thumbprint: identity.thumbprint, key: identity.keyID)
            let token = try verifier.verify(value.indices.map { value[$0] }, of: holder, at: now)
            let verified = Verified(
                digest, end: token.end, version: version, claims: keepsClaims ? token.claimsText : [])
            client.deviceToken = verified
            return .verified(verified)
        } catch .checkFailed(let error) {
            return .refused(Refusal(.internalError, error.description))
        } catch {
            return .refused(Refusal(.deviceTokenInvalid, error.reason))
        }
    }
}
