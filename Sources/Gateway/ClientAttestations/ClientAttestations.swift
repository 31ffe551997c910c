package import Attestation
internal import Bytes
internal import Challenges
internal import Cryptography
internal import Encoding
internal import HTTP
internal import Vocabulary

/// The settings of the client attestations that routes require, the same for all workers.
package struct ClientAttestationSettings: Sendable {
    let demands: ClientAttestationDemands
    let keys: [UInt8]
    let challengeLife: Int64

    /// - Parameters:
    ///   - keys: The attester's JWK Set, as it was read.
    ///   - challengeLife: How long a challenge is valid, in seconds.
    package init(_ demands: ClientAttestationDemands, keys: [UInt8], challengeLife: Int64) {
        self.demands = demands
        self.keys = keys
        self.challengeLife = challengeLife
    }
}

/// A client whose attestation and proof of possession were accepted for one request.
///
/// A reference, because all other requests have none.
final class AttestedClient {
    /// The client id.
    let id: [UInt8]
    /// Whether the response should bring a new challenge.
    let isChallengeAging: Bool

    init(id: [UInt8], isChallengeAging: Bool) {
        self.id = id
        self.isChallengeAging = isChallengeAging
    }
}

/// The check of client attestations in one worker's requests (draft-ietf-oauth-attestation-based-client-auth-10), and
/// what clients need for it: challenges, and the metadata of the protected resource (RFC 9728).
final class ClientAttestations {
    /// An attestation that a client has sent before.
    struct Verified {
        let digest: Digest256
        let attestation: ClientAttestation
        /// `ClientAttestations.version` at that time.
        let version: Int
    }

    /// In lower case.
    private static let name = Array("oauth-client-attestation".utf8)
    private static let proofName = Array("oauth-client-attestation-pop".utf8)
    private static let challengeName = Array("oauth-client-attestation-challenge".utf8)
    private static let dpopName = Array("dpop".utf8)

    private var verifier: ClientAttestationVerifier
    /// Grows with each change of the verifier.
    private var version = 0
    private let challenges: ChallengeIssuer
    private let life: Int64
    private let shared: SharedAttestations
    private let library: LibraryContext
    /// The host of the resource without port, in lower case.
    private let host: [UInt8]
    /// The path of the metadata.
    let metadataPath: [UInt8]
    /// The answer there.
    let metadata: [UInt8]
    /// The value of WWW-Authenticate after the denial's code (RFC 9728 section 5.1).
    private let authenticationEnd: [UInt8]

    init(
        _ settings: ClientAttestationSettings, _ shared: SharedAttestations, _ library: LibraryContext
    ) throws(CryptographyError) {
        // Copies without memory shared with other threads.
        let demands = settings.demands
        verifier = try ClientAttestationVerifier(demands, keys: settings.keys.map(\.self), library)
        guard let scope = ChallengeScope(purpose: .clientAttestation, store: shared.id, epoch: shared.id),
            let secret = ChallengeSecret(generation: 0, bytes: shared.secret)
        else { preconditionFailure("the secret is long enough") }
        challenges = try ChallengeIssuer(scope, current: secret, library)
        life = settings.challengeLife
        self.shared = shared
        self.library = library
        let place = ResourcePlace(demands.resource)
        host = Array(place.host.utf8)
        metadataPath = Array((ResourcePlace.metadataPath + place.path).utf8)
        authenticationEnd = Array(
            "\", resource_metadata=\"\(place.origin)\(ResourcePlace.metadataPath)\(place.path)\"".utf8)
        metadata = JSONWriter.object { metadata in
            metadata.member("resource", demands.resource)
            metadata.member("challenge_endpoint", "\(place.origin)\(GatewayEndpoint.attestationChallengePath)")
            metadata.member("client_attestation_pop_methods_supported", ["attestation_pop_jwt", "dpop_combined"])
            metadata.member(
                "client_attestation_signing_alg_values_supported", JWSAlgorithm.allCases.map(\.rawValue))
            metadata.member("client_attestation_pop_signing_alg_values_supported", [JWSAlgorithm.es256.rawValue])
            metadata.member("dpop_signing_alg_values_supported", [JWSAlgorithm.es256.rawValue])
        }
    }

    /// Judges by the attester and the keys of a later configuration, on open connections, too.
    func adopt(_ next: ClientAttestations) {
        verifier = next.verifier
        version += 1
    }

    /// Returns whether a field is of the attestation, so that services do not receive it.
    static func isField(_ field: HeaderField, _ bytes: Span<UInt8>) -> Bool {
        guard field.name == .other else { return false }
        let text = field.nameRange.of(bytes)
        return text.equals(lowercase: name) || text.equals(lowercase: proofName)
    }

    /// Returns whether a field of a response gives a challenge.
    static func isChallenge(_ field: HeaderField, _ bytes: Span<UInt8>) -> Bool {
        field.name == .other && field.nameRange.of(bytes).equals(lowercase: challengeName)
    }

    // MARK: - Endpoints

    /// Returns whether a host is that of the resource.
    func isHost(_ name: Span<UInt8>) -> Bool { name.equals(lowercase: host) }

    /// Returns a new challenge. Nil if none can be made.
    func challenge(now: Int64) -> [UInt8]? {
        (try? challenges.issue(now: UInt64(max(0, now))))?.bytes
    }

    /// Appends the fields of a denial.
    func appendFields(of denial: Denial, now: Int64, to output: inout ByteBuffer) {
        output.append("WWW-Authenticate: Bearer error=\"")
        output.append(denial.row.code)
        output.append(authenticationEnd)
        output.append("\r\n")
        if denial == .attestationChallengeRequired { appendChallenge(now: now, to: &output) }
    }

    func appendChallenge(now: Int64, to output: inout ByteBuffer) {
        guard let challenge = challenge(now: now) else { return }
        output.appendField("OAuth-Client-Attestation-Challenge", challenge.span)
    }

    // MARK: - The check

    /// Verifies attestation and proof of possession of a request. Cheap checks come first; the proof counts as used only
    /// if everything else is right.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of `head`.
    ///   - now: In seconds since 1970.
    func admit(
        _ head: RequestHead, _ bytes: Span<UInt8>, _ client: ClientMemory, now: Int64
    ) throws(Refusal) -> AttestedClient {
        guard let field = try only(Self.name, head, bytes) else {
            throw Refusal(.attestationInvalid, "there is no OAuth-Client-Attestation")
        }
        let proof = try self.proof(head, bytes, now: now)
        let (challengedAt, isAging) = try verdict(on: proof, now: now)
        let attestation = try attestation(field.of(bytes), client, now: now)
        try Refusal.from { () throws(ClientAttestationFault) in try verifier.verify(proof, by: attestation) }
        try take(proof, by: attestation, challengedAt: challengedAt, now: now)
        return AttestedClient(id: Array(attestation.client.utf8), isChallengeAging: isAging)
    }
}

extension ClientAttestations {
    /// Returns the value of the only field of a name. Nil without one.
    private func only(_ name: [UInt8], _ head: RequestHead, _ bytes: Span<UInt8>) throws(Refusal) -> ByteRange? {
        var found: ByteRange?
        for field in head.fields where field.name == .other && field.nameRange.of(bytes).equals(lowercase: name) {
            guard found == nil else {
                throw Refusal(.attestationInvalid, "there is more than one \(String(decoding: name, as: UTF8.self))")
            }
            found = field.valueRange
        }
        return found
    }

    /// Returns the proof of possession: a PoP JWT, or without one the DPoP proof.
    private func proof(
        _ head: RequestHead, _ bytes: Span<UInt8>, now: Int64
    ) throws(Refusal) -> AttestationProof {
        if let own = try only(Self.proofName, head, bytes) {
            let text = Array(copying: own.of(bytes))
            return try Refusal.from { () throws(ClientAttestationFault) in try verifier.proof(text, at: now) }
        }
        guard let dpop = try only(Self.dpopName, head, bytes), let target = Self.target(of: head, bytes) else {
            throw Refusal(.attestationInvalid, "there is no OAuth-Client-Attestation-PoP")
        }
        let text = Array(copying: dpop.of(bytes))
        return try Refusal.from { () throws(ClientAttestationFault) in
            try verifier.proof(dpop: text, for: target, at: now)
        }
    }

    private static let accessTokenScheme = Array("dpop ".utf8)

    private static func target(of head: RequestHead, _ bytes: Span<UInt8>) -> ProvenTarget? {
        guard let method = head.methodBytes else { return nil }
        let port = head.port.flatMap { $0 == 443 ? nil : ":\($0)" } ?? ""
        let host = String(decoding: Array(copying: head.host.of(bytes)), as: UTF8.self).lowercased()
        let path = String(decoding: Array(copying: head.path.of(bytes)), as: UTF8.self)
        var token: [UInt8]?
        for field in head.fields where field.name == .authorization {
            let value = Array(copying: field.valueRange.of(bytes))
            if value.prefix(5).map({ $0 | 0x20 }) == accessTokenScheme { token = Array(value.dropFirst(5)) }
        }
        return ProvenTarget(
            method: String(decoding: method, as: UTF8.self), url: "https://\(host)\(port)\(path)", accessToken: token)
    }

    /// Returns when the challenge of a proof was issued, and whether it is past half its life.
    private func verdict(
        on proof: AttestationProof, now: Int64
    ) throws(Refusal) -> (challengedAt: Int64, isAging: Bool) {
        guard let challenge = proof.challenge else { throw Refusal(.attestationChallengeRequired, "there is none") }
        let verdict: ChallengeVerdict
        do throws(CryptographyError) {
            verdict = try challenges.verify(challenge.span, now: UInt64(max(0, now)), life: UInt64(life))
        } catch {
            throw Refusal(.internalError, error.description)
        }
        switch verdict {
        case .fresh(let issuedAt, let isAging): return (Int64(clamping: issuedAt), isAging)
        case .expired: throw Refusal(.attestationChallengeRequired, "it has expired")
        case .premature: throw Refusal(.attestationChallengeRequired, "it is from the future")
        case .foreign, .malformed:
            throw Refusal(.attestationChallengeRequired, "it is not of this process")
        }
    }

    /// Returns a verified attestation. One that the client has sent before costs a digest and a comparison, until it
    /// ends.
    private func attestation(
        _ value: Span<UInt8>, _ client: ClientMemory, now: Int64
    ) throws(Refusal) -> ClientAttestation {
        let digest: Digest256
        do throws(CryptographyError) { digest = try library.sha256(of: value) } catch {
            throw Refusal(.internalError, error.description)
        }
        if let known = client.attestation, known.version == version, known.digest == digest, now < known.attestation.end
        {
            return known.attestation
        }
        let text = Array(copying: value)
        let attestation = try Refusal.from { () throws(ClientAttestationFault) in
            try verifier.verify(text, at: now)
        }
        client.attestation = Verified(digest: digest, attestation: attestation, version: version)
        return attestation
    }

    /// Takes a proof, so that it is not accepted again.
    private func take(
        _ proof: AttestationProof, by attestation: ClientAttestation, challengedAt: Int64, now: Int64
    ) throws(Refusal) {
        // The thumbprint has a fixed length.
        let name = Array(attestation.thumbprint.utf8) + proof.id
        let digest: Digest256
        do throws(CryptographyError) { digest = try library.sha256(of: name.span) } catch {
            throw Refusal(.internalError, error.description)
        }
        var key: UInt128 = 0
        for index in 0..<16 { key = key << 8 | UInt128(digest.span[index]) }
        switch shared.used.take(key, challengedAt: challengedAt, now: now, window: life) {
        case .first: break
        case .repeated: throw Refusal(.attestationInvalid, "jti of the proof of possession was used before")
        case .forgotten: throw Refusal(.attestationChallengeRequired, "proofs with it may have been forgotten")
        case .full: throw Refusal(.overloaded, "too many proofs of possession are remembered")
        }
    }
}

extension Refusal {
    fileprivate init(_ fault: ClientAttestationFault) {
        if case .checkFailed(let error) = fault {
            self.init(.internalError, error.description)
        } else {
            self.init(fault.isStale ? .attestationStale : .attestationInvalid, fault.reason)
        }
    }

    /// Runs a check, and converts its fault.
    fileprivate static func from<Result>(
        _ check: () throws(ClientAttestationFault) -> Result
    ) throws(Refusal) -> Result {
        do throws(ClientAttestationFault) { return try check() } catch { throw Refusal(error) }
    }
}

/// The parts of a resource identifier: an https URL without query and fragment (RFC 9728 section 1.2).
private struct ResourcePlace {
    /// The well-known path, which the resource's own path follows (RFC 9728 section 3.1).
    static let metadataPath = "/.well-known/oauth-protected-resource"

    /// Scheme, host and port.
    let origin: String
    /// In lower case, without port.
    let host: String
    /// Empty, or a slash and more.
    let path: String

    init(_ resource: String) {
        let scheme = "https://"
        let rest = resource.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" }
        origin = scheme + authority
        path = String(rest.dropFirst(authority.count))
        let colon = authority.hasSuffix("]") ? nil : authority.lastIndex(of: ":")
        host = authority[..<(colon ?? authority.endIndex)].lowercased()
    }
}
