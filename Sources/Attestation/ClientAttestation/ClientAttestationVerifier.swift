public import Cryptography
internal import Encoding

/// What a client attestation and its proof of possession must be (draft-ietf-oauth-attestation-based-client-auth-10).
public struct ClientAttestationDemands: Equatable, Sendable {
    /// The resource identifier (RFC 9728), which is the `aud` of proofs. Compared byte by byte.
    public var resource: String
    /// The admitted client ids. Nil for any.
    public var clients: Set<String>?
    /// The maximum age of an attestation with `iat` in seconds, whatever `exp` says.
    public var maximumAge: Int64
    /// The maximum age of a proof in seconds.
    public var proofAge: Int64

    public init(resource: String, clients: Set<String>? = nil, maximumAge: Int64, proofAge: Int64) {
        self.resource = resource
        self.clients = clients
        self.maximumAge = maximumAge
        self.proofAge = proofAge
    }
}

/// A verified client attestation: an attester's statement that a key is of an instance of a client.
///
/// Belongs to the thread of its library context.
public struct ClientAttestation {
    /// The client id: its `sub`, 1 to 255 printable characters without spaces.
    public let client: String
    /// The time at which it ends: `exp`, or earlier by its age. In seconds since 1970.
    public let end: Int64
    /// The JWK thumbprint of the instance's key (RFC 7638).
    public let thumbprint: String
    let jwk: PublicJWK
    let key: P256VerificationKey
}

/// The request that a DPoP proof is for (RFC 9449 section 4.3).
public struct ProvenTarget: Sendable {
    /// The method's name.
    let method: String
    /// The URL without query and fragment.
    let url: String
    /// The access token of the request. Nil without one.
    let accessToken: [UInt8]?

    public init(method: String, url: String, accessToken: [UInt8]?) {
        self.method = method
        self.url = url
        self.accessToken = accessToken
    }
}

/// A proof of possession whose claims are checked, but neither its signature nor its challenge.
public struct AttestationProof: Sendable {
    /// The `jti`, 1 to 255 bytes.
    public let id: [UInt8]
    /// The challenge. Nil without one.
    public let challenge: [UInt8]?
    fileprivate let signed: CompactJWS
    /// The key that the header of a DPoP proof names.
    fileprivate let key: PublicJWK?
}

/// A verifier of the client attestations of one attester, and of the proofs of possession with them.
///
/// Other parties define both, so unknown claims are ignored (RFC 7519 section 4). Belongs to the thread of its library
/// context.
public struct ClientAttestationVerifier {
    /// Length limit of an attestation, and of a proof, in bytes.
    public static let lengthLimit = 8 << 10
    /// Tolerance for other clocks being ahead, in seconds.
    public static let clockTolerance: Int64 = 60

    private let demands: ClientAttestationDemands
    private let keys: JWKSet
    private let library: LibraryContext

    /// Creates a verifier.
    ///
    /// - Parameter keys: The attester's JWK Set (RFC 7517 section 5).
    /// - Throws: if it is no set with a key for ES256, RS256 or PS256.
    public init(
        _ demands: ClientAttestationDemands, keys: [UInt8], _ library: LibraryContext
    ) throws(CryptographyError) {
        self.demands = demands
        self.library = library
        do throws(JWKSetFault) { self.keys = try JWKSet(keys, library) } catch {
            throw CryptographyError(doing: "read the JWK Set: \(error.reason)")
        }
    }

    // MARK: - The attestation

    /// Verifies an attestation. Its signature comes last, because it costs most.
    ///
    /// - Parameters:
    ///   - text: The attestation as received.
    ///   - time: Seconds since 1970.
    public func verify(_ text: [UInt8], at time: Int64) throws(ClientAttestationFault) -> ClientAttestation {
        guard text.count <= Self.lengthLimit, let signed = try? CompactJWS(text) else { throw .malformed }
        guard signed.header["typ"]?.spells("oauth-client-attestation+jwt") == true else { throw .type }
        let claims = signed.payload
        guard let client = Self.client(claims["sub"]) else { throw .claim(.subject) }
        guard let expiry = claims["exp"]?.integer, NumericDate.range.contains(expiry) else { throw .claim(.expiry) }
        let issuedAt = try Self.time(claims["iat"], .issuedAt)
        let notBefore = try Self.time(claims["nbf"], .notBefore)
        guard let members = claims["cnf"]?.object?["jwk"]?.object, let jwk = PublicJWK(received: members) else {
            throw .claim(.confirmation)
        }
        guard max(issuedAt ?? 0, notBefore ?? 0) <= time + Self.clockTolerance else { throw .fromTheFuture }
        guard time < expiry else { throw .expired }
        let end = min(expiry, issuedAt.map { $0 + demands.maximumAge } ?? expiry)
        guard time < end else { throw .tooOld }
        if let admitted = demands.clients, !admitted.contains(client) { throw .client }
        do throws(JWSVerificationFault) { try keys.verify(signed) } catch {
            if case .checkFailed(let error) = error { throw .checkFailed(error) }
            throw .signature(error)
        }
        let key: P256VerificationKey
        do throws(CryptographyError) { key = try P256VerificationKey(point: jwk.point.span, library) } catch {
            throw .claim(.confirmation)  // not on the curve
        }
        let thumbprint = try ClientAttestationFault.checking { () throws(CryptographyError) in
            try jwk.thumbprint(library)
        }
        return ClientAttestation(client: client, end: end, thumbprint: thumbprint, jwk: jwk, key: key)
    }

    /// Returns a client id that may be put into a header field.
    private static func client(_ value: JSONValue?) -> String? {
        guard let text = value?.text, (1...255).contains(text.count), text.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        return String(decoding: text, as: UTF8.self)
    }

    private static func time(
        _ value: JSONValue?, _ claim: ClientAttestationFault.Claim
    ) throws(ClientAttestationFault) -> Int64? {
        guard let value else { return nil }
        guard let time = value.integer, NumericDate.range.contains(time) else { throw .claim(claim) }
        return time
    }

    // MARK: - The proof of possession

    /// Checks a Client Attestation PoP JWT, except its signature and challenge.
    ///
    /// - Parameters:
    ///   - text: The proof as received.
    ///   - time: Seconds since 1970.
    public func proof(_ text: [UInt8], at time: Int64) throws(ClientAttestationFault) -> AttestationProof {
        let signed = try Self.parse(text, type: "oauth-client-attestation-pop+jwt")
        guard signed.payload["aud"]?.spells(demands.resource) == true else { throw .audience }
        return try proof(signed, challenge: .challenge, key: nil, at: time)
    }

    /// Checks a DPoP proof that stands for a PoP JWT, except its signature and challenge.
    ///
    /// - Parameters:
    ///   - text: The proof as received.
    ///   - target: The request with the proof.
    ///   - time: Seconds since 1970.
    public func proof(
        dpop text: [UInt8], for target: ProvenTarget, at time: Int64
    ) throws(ClientAttestationFault) -> AttestationProof {
        let signed = try Self.parse(text, type: "dpop+jwt")
        guard let members = signed.header["jwk"]?.object, let key = PublicJWK(received: members) else {
            throw .proofKey
        }
        guard signed.payload["htm"]?.spells(target.method) == true, signed.payload["htu"]?.spells(target.url) == true
        else { throw .target }
        if let token = target.accessToken {
            let digest = try ClientAttestationFault.checking { () throws(CryptographyError) in
                try library.sha256(of: token.span)
            }
            guard signed.payload["ath"]?.spells(Base64URL.encode(digest.span)) == true else { throw .accessToken }
        }
        return try proof(signed, challenge: .nonce, key: key, at: time)
    }

    private static func parse(_ text: [UInt8], type: String) throws(ClientAttestationFault) -> CompactJWS {
        guard text.count <= lengthLimit, let signed = try? CompactJWS(text) else { throw .proofMalformed }
        guard signed.header["typ"]?.spells(type) == true else { throw .proofType }
        guard let algorithm = try? signed.algorithm(), algorithm == .es256 else { throw .proofAlgorithm }
        return signed
    }

    private func proof(
        _ signed: CompactJWS, challenge: ClientAttestationFault.ProofClaim, key: PublicJWK?, at time: Int64
    ) throws(ClientAttestationFault) -> AttestationProof {
        let claims = signed.payload
        guard let id = claims["jti"]?.text, (1...255).contains(id.count) else { throw .proofClaim(.id) }
        guard let issuedAt = claims["iat"]?.integer, NumericDate.range.contains(issuedAt) else {
            throw .proofClaim(.issuedAt)
        }
        var given: [UInt8]?
        if let value = claims[challenge.rawValue] {
            guard let text = value.text else { throw .proofClaim(challenge) }
            given = text
        }
        guard issuedAt <= time + Self.clockTolerance, time - issuedAt < demands.proofAge else { throw .proofTime }
        return AttestationProof(id: id, challenge: given, signed: signed, key: key)
    }

    /// Verifies that the attested key has made a proof.
    public func verify(
        _ proof: AttestationProof, by attestation: ClientAttestation
    ) throws(ClientAttestationFault) {
        if let key = proof.key, key != attestation.jwk { throw .proofKey }
        let isSigned = try ClientAttestationFault.checking { () throws(CryptographyError) in
            try proof.signed.isSigned(by: attestation.key, library)
        }
        guard isSigned else { throw .proofSignature }
    }
}
