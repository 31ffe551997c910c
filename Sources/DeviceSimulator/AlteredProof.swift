public import Cryptography
internal import Encoding
internal import RequestProof
public import TrustClient
public import Vocabulary

/// A proof with deliberate faults and a valid signature over them.
///
/// Without alterations it equals the result of `ProofDraft`, except for the random part of the assertion.
public struct AlteredProof: Sendable {
    /// The SHA-256 of the signature base.
    public let clientDataHash: [UInt8]
    private let alterations: ProofAlterations
    private let contentDigest: [UInt8]?
    /// The counter of an Android device; nil for App Attest.
    private let counter: UInt32?
    /// The value of `@signature-params`.
    private let parameters: String

    private var label: String { alterations.label ?? "attest" }

    /// Creates a proof.
    ///
    /// - Parameters:
    ///   - request: The request as it will be sent.
    ///   - created: The time before any offset, in seconds since 1970.
    ///   - counter: The counter of an Android device. Nil for App Attest.
    public init(
        _ request: AttestedRequest, answering challenge: ReceivedChallenge, keyID: KeyID, created: Int64,
        counter: UInt32? = nil, _ alterations: ProofAlterations, _ library: LibraryContext
    ) throws {
        var signed = try Self.signed(request, alterations)
        if let counter { signed = signed.stating(counter: counter) }
        let algorithm: ProofAlgorithm = counter == nil ? .appleAttest : .ecdsaP256SHA256
        let all = signed.components(asked: challenge.request.components)
        for name in alterations.omitted where !all.contains(where: { $0.description == name }) {
            throw SimulatorError("\(name) cannot be left out: the proof does not cover it")
        }
        let components = all.filter { !alterations.omitted.contains($0.description) }
        let time = created + alterations.createdOffset
        // The builder validates its input, so it receives valid values. The altered ones replace its parameters below.
        let builder = try ProofBuilder(
            components: components, keyID: keyID, nonce: challenge.request.nonce, created: max(0, time))
        let genuine = builder.input.signatureParameters
        // Component names contain no parenthesis.
        let list = genuine.prefix { $0 != UInt8(ascii: ")") } + [UInt8(ascii: ")")]
        let nonce = alterations.nonce ?? String(decoding: challenge.request.nonce, as: UTF8.self)
        var parameters = String(decoding: list, as: UTF8.self) + ";created=\(time)"
        if let expires = alterations.expires { parameters += ";expires=\(time + expires)" }
        parameters += #";keyid="\#(alterations.keyID ?? keyID.base64)";nonce="\#(nonce)""#
        parameters += #";alg="\#(alterations.algorithm ?? algorithm.description)""#
        parameters += #";tag="\#(alterations.tag ?? "attestgate-request")""#

        // The base ends with the parameters.
        let base = try signed.signatureBase(builder).dropLast(genuine.count) + Array(parameters.utf8)
        let bytes = Array(base)
        clientDataHash = try library.sha256(of: bytes.span).bytes
        self.parameters = parameters
        self.alterations = alterations
        contentDigest = signed.contentDigest
        self.counter = counter
    }

    /// Returns the fields of the proof.
    ///
    /// - Parameter assertion: A key's assertion or signature for `clientDataHash`.
    public func fields(assertion: [UInt8]) throws -> ProofFields {
        var input = label + "=" + parameters
        if alterations.corruption == .signatureInput { input.removeLast() }
        var text: [UInt8] = []
        let sent = corrupted(assertion)
        Base64.encode(sent.span, appendingTo: &text)
        return ProofFields(
            contentDigest: contentDigest, counter: counter.map { Array("\($0)".utf8) },
            signatureInput: Array(input.utf8),
            signature: Array("\(label)=:".utf8) + text + [UInt8(ascii: ":")])
    }

    private func corrupted(_ assertion: [UInt8]) -> [UInt8] {
        var assertion = assertion
        switch alterations.corruption {
        case .assertion where counter != nil: assertion.removeLast()
        case .signature where counter != nil: assertion[assertion.count - 1] ^= 1
        case .assertion: assertion[0] ^= 0xff
        case .signature:
            // The last byte belongs to the signature's second number, so that the encoding stays valid.
            let name = Array("authenticatorData".utf8)
            let place = assertion.indices.first { assertion[$0...].starts(with: name) }
            // The head of that name, one byte, precedes it.
            if let place { assertion[place - 2] ^= 1 }
        case .signatureInput, nil: break
        }
        return assertion
    }

    /// Returns the request that the proof is made for.
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

/// The faults of a proof, each with its own denial. By default there is none.
public struct ProofAlterations: Equatable, Sendable {
    /// The damage done after signing.
    public enum Corruption: String, CaseIterable, Sendable {
        /// One bit of the ECDSA signature is changed.
        case signature
        /// The first byte of the assertion is changed, so that it is no CBOR map. Android's signature loses a byte.
        case assertion
        /// The last quote of Signature-Input is missing.
        case signatureInput = "signature-input"
    }

    // The proof is made for another request than the one sent.
    public var method: String?
    public var authority: String?
    public var path: String?
    /// The query without its question mark.
    public var query: String?
    /// Other content, whose digest is signed and sent.
    public var content: [UInt8]?
    /// A text that is signed and sent instead of the content's digest.
    public var contentDigest: String?

    /// The names of components that are not covered.
    public var omitted: [String] = []

    // Parameters. Texts are put between quotes unchanged.
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
