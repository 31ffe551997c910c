public import Cryptography
internal import RequestProof
public import TrustClient
public import Vocabulary

/// A proof with something wrong in it, signed nevertheless: the signature fits what the proof says.
///
/// Without alterations it is byte for byte what `ProofDraft` makes, but for the assertion's random part.
public struct AlteredProof: Sendable {
    /// SHA-256 of the signature base.
    public let clientDataHash: [UInt8]
    private let alterations: ProofAlterations
    private let contentDigest: [UInt8]?
    /// The value of `@signature-params`.
    private let parameters: String

    private var label: String { alterations.label ?? "attest" }

    /// - Parameters:
    ///   - request: as it will be sent.
    ///   - created: the time before any offset, in seconds since 1970.
    public init(
        _ request: AttestedRequest, answering challenge: ReceivedChallenge, keyID: KeyID, created: Int64,
        _ alterations: ProofAlterations, _ library: LibraryContext
    ) throws {
        let signed = try Self.signed(request, alterations)
        let all = signed.components(asked: challenge.request.components)
        for name in alterations.omitted where !all.contains(where: { $0.description == name }) {
            throw SimulatorError("\(name) cannot be left out: the proof does not cover it")
        }
        let components = all.filter { !alterations.omitted.contains($0.description) }
        let time = created + alterations.createdOffset
        // The builder checks what it writes, so it gets good values; the altered ones replace its parameters below.
        let builder = try ProofBuilder(
            components: components, keyID: keyID, nonce: challenge.request.nonce, created: max(0, time))
        let genuine = builder.input.signatureParameters
        // Component names hold no parenthesis.
        let list = genuine.prefix { $0 != UInt8(ascii: ")") } + [UInt8(ascii: ")")]
        let nonce = alterations.nonce ?? String(decoding: challenge.request.nonce, as: UTF8.self)
        var parameters = String(decoding: list, as: UTF8.self) + ";created=\(time)"
        if let expires = alterations.expires { parameters += ";expires=\(time + expires)" }
        parameters += #";keyid="\#(alterations.keyID ?? keyID.base64)";nonce="\#(nonce)""#
        parameters += #";alg="\#(alterations.algorithm ?? "apple-attest")""#
        parameters += #";tag="\#(alterations.tag ?? "attestgate-request")""#

        // The parameters are the end of the base.
        let base = try signed.signatureBase(builder).dropLast(genuine.count) + Array(parameters.utf8)
        let bytes = Array(base)
        clientDataHash = try library.sha256(of: bytes.span).bytes
        self.parameters = parameters
        self.alterations = alterations
        contentDigest = signed.contentDigest
    }

    /// - Parameter assertion: what a key made of `clientDataHash`.
    public func fields(assertion: [UInt8]) throws -> ProofFields {
        var input = label + "=" + parameters
        if alterations.corruption == .signatureInput { input.removeLast() }
        var text: [UInt8] = []
        let sent = corrupted(assertion)
        Base64.encode(sent.span, appendingTo: &text)
        return ProofFields(
            contentDigest: contentDigest, signatureInput: Array(input.utf8),
            signature: Array("\(label)=:".utf8) + text + [UInt8(ascii: ":")])
    }

    private func corrupted(_ assertion: [UInt8]) -> [UInt8] {
        var assertion = assertion
        switch alterations.corruption {
        case .assertion: assertion[0] ^= 0xff
        case .signature:
            // The last byte of the signature is the last of its second number: the encoding stays good.
            let name = Array("authenticatorData".utf8)
            let place = assertion.indices.first { assertion[$0...].starts(with: name) }
            // Before it stands the head of that name, one byte.
            if let place { assertion[place - 2] ^= 1 }
        case .signatureInput, nil: break
        }
        return assertion
    }

    /// The request that the proof is made for.
    private static func signed(
        _ request: AttestedRequest, _ alterations: ProofAlterations
    ) throws -> AttestedRequest {
        var target = request.target
        if let authority = alterations.authority { target.authority = Array(authority.utf8) }
        if let path = alterations.path { target.path = Array(path.utf8) }
        if let query = alterations.query { target.query = Array(query.utf8) }
        let method = alterations.method ?? String(decoding: request.method, as: UTF8.self)
        var signed = try AttestedRequest(
            method: method, target: target,
            fields: request.fields.map { ($0.name.description, String(decoding: $0.value, as: UTF8.self)) },
            content: alterations.content.map { .bytes($0) } ?? .none)
        if alterations.content == nil { signed.contentDigest = request.contentDigest }
        if let digest = alterations.contentDigest { signed.contentDigest = Array(digest.utf8) }
        return signed
    }
}

/// What is to be wrong with a proof: each makes a gateway refuse for another reason. By default nothing is.
public struct ProofAlterations: Equatable, Sendable {
    /// What is broken after signing.
    public enum Corruption: String, CaseIterable, Sendable {
        /// One bit of the ECDSA signature.
        case signature
        /// The first byte of the assertion, so that it is no CBOR map any more.
        case assertion
        /// The last quote of Signature-Input is missing.
        case signatureInput = "signature-input"
    }

    // The proof is made for another request than the one that is sent.
    public var method: String?
    public var authority: String?
    public var path: String?
    /// Without its question mark.
    public var query: String?
    /// Other content, whose digest is signed and sent.
    public var content: [UInt8]?
    /// Signed and sent in place of the content's digest, whatever it is.
    public var contentDigest: String?

    /// Names of components that are not covered.
    public var omitted: [String] = []

    // Parameters. Texts are put between quotes as they are.
    /// Seconds added to `created`.
    public var createdOffset: Int64 = 0
    /// Seconds from `created`.
    public var expires: Int64?
    public var keyID: String?
    public var nonce: String?
    public var algorithm: String?
    public var tag: String?
    public var label: String?

    public var corruption: Corruption?

    public init() {}

    public var isNone: Bool { self == ProofAlterations() }
}
