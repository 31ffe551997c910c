internal import Attestation
internal import Cryptography
internal import Encoding
internal import Registry
internal import Vocabulary

/// A verified assertion of an instance: a JWT that the mTLS key of its device has signed (RFC 7523). That the key is
/// bound to the device that the assertion names, and that its `jti` is new, remains to be checked by the registry.
struct InstanceAssertion: Equatable {
    /// The key that signed it.
    let key: KeyID
    /// The JWK thumbprint of that key.
    let thumbprint: String
    /// The device: `iss` and `sub`.
    let instance: KeyID
    let singleUse: SingleUse
    /// `azp`: the app that the token is for. Nil for the instance itself.
    let party: String?
    /// `cnf.jkt`: the key to which the token is to be bound.
    let confirmation: String?
    /// `parent`: the `jti` of the token from which the new one is derived.
    let parent: Fingerprint?
    let version: AppVersion?
    /// `resource`: the URL of the service, for clients that cannot send `aud`.
    let resource: String?
}

/// The verifier of instances' assertions. Belongs to the thread of its library context.
struct AssertionVerification {
    /// The longest assertion in bytes.
    static let lengthLimit = 8 << 10
    /// The maximum time until `exp`, in seconds. Used assertions are remembered for that time.
    static let longestLife = SingleUse.longestTokenLife
    /// Tolerance for clocks of phones that are ahead, in seconds.
    static let clockTolerance: Int64 = 60

    private let audiences: [String]
    private let lifeWithoutExpiry: Int64?
    private let library: LibraryContext

    /// - Parameters:
    ///   - url: The federation's URL: the required `aud`, or with the path of the token endpoint.
    ///   - lifeWithoutExpiry: How long an assertion without `exp` is valid after `iat`, in seconds. Nil to refuse those.
    init(url: String, lifeWithoutExpiry: Int64?, _ library: LibraryContext) {
        audiences = [url] + [FederationEndpoint.token, .authorize].map { url + $0.path }
        self.lifeWithoutExpiry = lifeWithoutExpiry
        self.library = library
    }

    /// Verifies an assertion: the form, then comparisons, then the signature.
    ///
    /// - Parameters:
    ///   - error: The error of a refusal: `invalid_client` or `invalid_grant` (RFC 7523 section 3).
    ///   - now: In seconds since 1970.
    func verify(
        _ text: String, else error: FederationError, now: Int64
    ) throws(FederationFault) -> InstanceAssertion {
        func refuse(_ reason: String) -> FederationFault { FederationFault(error, "the assertion \(reason)") }
        guard text.utf8.count <= Self.lengthLimit, let token = try? CompactJWS(Array(text.utf8)) else {
            throw refuse("is not a JWT in compact form")
        }
        // The sender must choose neither the algorithm (RFC 8725 section 3.1) nor extensions.
        guard token.header["alg"]?.spells("ES256") == true else { throw refuse("is not signed with ES256") }
        guard token.header["crit"] == nil else { throw refuse("has critical extensions") }
        guard let jwk = token.header["jwk"]?.object.flatMap({ PublicJWK(received: $0) }) else {
            throw refuse("has no header jwk with a key on P-256")
        }
        let claims = token.payload
        guard let issuer = claims["iss"]?.text, let subject = claims["sub"]?.text, issuer == subject,
            let id = Base64URL.decode(issuer.span), let instance = KeyID(digest: id.span)
        else { throw refuse("must have the id of the instance as iss and sub") }
        guard let audience = claims["aud"], isAudience(audience) else { throw refuse("is for another audience") }
        let expiry: Int64
        switch expiryOfTimes(claims, now) {
        case .success(let end): expiry = end
        case .failure(let fault): throw refuse(fault.reason)
        }
        guard let tokenID = claims["jti"]?.text, (1...128).contains(tokenID.count) else {
            throw refuse("has no jti of 1 to 128 bytes")
        }
        let details = try details(claims, else: error)
        try checkSignature(token, jwk, else: error)
        let (key, thumbprint, use) = try FederationFault.checking {
            () throws(CryptographyError) in
            (
                try library.sha256(of: jwk.point.span), try jwk.thumbprint(library),
                try library.sha256(of: (Array("attestgate assertion\0".utf8) + id + tokenID).span)
            )
        }
        guard let keyID = KeyID(digest: key.span), let single = Fingerprint(use.bytes) else {
            preconditionFailure("a SHA-256 has 32 bytes")
        }
        return InstanceAssertion(
            key: keyID, thumbprint: thumbprint, instance: instance,
            singleUse: SingleUse(id: single, expiresAt: expiry), party: details.party,
            confirmation: details.confirmation, parent: details.parent, version: details.version,
            resource: details.resource)
    }

    /// Returns whether the claim names this server, alone or among others (RFC 7519 section 4.1.3).
    private func isAudience(_ claim: JSONValue) -> Bool {
        let names = if case .array(let names) = claim { names } else { [claim] }
        return names.contains { name in audiences.contains { name.spells($0) } }
    }

    private struct TimeFault: Error {
        let reason: String
    }

    /// Returns when the assertion expires, in seconds since 1970.
    private func expiryOfTimes(_ claims: JSONObject, _ now: Int64) -> Result<Int64, TimeFault> {
        for name in ["nbf", "iat"] {
            guard let value = claims[name] else { continue }
            guard let time = value.integer, NumericDate.range.contains(time), time <= now + Self.clockTolerance else {
                return .failure(TimeFault(reason: "is not yet valid by its \(name)"))
            }
        }
        guard let value = claims["exp"] else {
            guard let life = lifeWithoutExpiry else { return .failure(TimeFault(reason: "has no exp")) }
            guard let issuedAt = claims["iat"]?.integer else {
                return .failure(TimeFault(reason: "has neither exp nor iat"))
            }
            guard now < issuedAt + life else { return .failure(TimeFault(reason: "has expired")) }
            return .success(issuedAt + life)
        }
        guard let expiry = value.integer, NumericDate.range.contains(expiry), now < expiry else {
            return .failure(TimeFault(reason: "has expired"))
        }
        guard expiry - now <= Self.longestLife else {
            return .failure(TimeFault(reason: "is valid for more than \(Self.longestLife) seconds"))
        }
        return .success(expiry)
    }

    private struct Details {
        var party: String?
        var confirmation: String?
        var parent: Fingerprint?
        var version: AppVersion?
        var resource: String?
    }

    private func details(_ claims: JSONObject, else error: FederationError) throws(FederationFault) -> Details {
        func refuse(_ claim: String) -> FederationFault {
            FederationFault(error, "the assertion has a malformed \(claim)")
        }
        func text(_ claim: String) throws(FederationFault) -> String? {
            guard let value = claims[claim] else { return nil }
            guard let text = value.text.flatMap({ String(validating: $0, as: UTF8.self) }),
                FederationToken.admits(text)
            else { throw refuse(claim) }
            return text
        }
        var details = Details(party: try text("azp"), resource: try text("resource"))
        if let value = claims["cnf"] {
            guard let text = value.object?["jkt"]?.text, Base64URL.decode(text.span)?.count == 32 else {
                throw refuse("cnf: it must have a jkt")
            }
            details.confirmation = String(decoding: text, as: UTF8.self)
        }
        if let value = claims["parent"] {
            guard let parent = value.text.flatMap({ Fingerprint(base64URL: $0) }) else { throw refuse("parent") }
            details.parent = parent
        }
        if let value = claims["app_version"] {
            guard let version = value.text.flatMap({ AppVersion(bundleVersion: String(decoding: $0, as: UTF8.self)) })
            else { throw refuse("app_version") }
            details.version = version
        }
        return details
    }

    private func checkSignature(
        _ token: CompactJWS, _ jwk: PublicJWK, else error: FederationError
    ) throws(FederationFault) {
        guard let key = try? P256VerificationKey(point: jwk.point.span, library) else {
            throw FederationFault(error, "the assertion's key is not on P-256")
        }
        let isSigned = try FederationFault.checking { () throws(CryptographyError) in
            try token.isSigned(by: key, library)
        }
        guard isSigned else { throw FederationFault(error, "the assertion's signature does not verify") }
    }
}

extension Fingerprint {
    /// - Parameter text: 43 characters.
    init?(base64URL text: [UInt8]) {
        guard let bytes = Base64URL.decode(text.span) else { return nil }
        self.init(bytes)
    }

    var base64URL: String { Base64URL.encode(bytes) }
}
