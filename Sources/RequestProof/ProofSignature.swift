internal import Encoding
public import Vocabulary

/// The member `attest` of Signature (RFC 9421 section 4.2): the assertion as a byte sequence. Android devices send a
/// signature in its place.
public struct ProofSignature: Equatable, Sendable {
    /// The assertion or signature, 1 to `sizeLimit` bytes. It is not parsed here.
    public let assertion: [UInt8]
    /// Length of a signature in bytes: r and s (RFC 9421 section 3.3.4).
    private static let signatureLength = 64
    /// Whether the field has no other member and therefore concerns only the gateway.
    public let isAlone: Bool

    /// Length limit of an assertion in bytes. Genuine ones have about 140, or a few hundred with extensions.
    public static let sizeLimit = 4_096

    /// Parses the field.
    ///
    /// - Parameters:
    ///   - field: The value of Signature, with several lines combined by `CombinedField`.
    ///   - previous: A value whose memory is reused. If it is passed with `consume`, parsing allocates nothing.
    /// - Throws: `missing` or `malformed` of `signature`.
    public init(parsing field: Span<UInt8>, reusing previous: consuming ProofSignature? = nil) throws(ProofFault) {
        var assertion = previous?.assertion ?? []
        previous = nil
        assertion.removeAll(keepingCapacity: true)
        var isAlone = true
        let isFound: Bool
        do throws(Malformation) {
            isFound = try Self.find(in: field, &assertion, &isAlone)
        } catch {
            throw .malformed(.signature, error)
        }
        guard isFound else { throw .missing(.signature) }
        self.assertion = assertion
        self.isAlone = isAlone
    }

    /// Creates a value.
    ///
    /// - Throws: `malformed` of `signature` if the assertion is empty or too long.
    public init(assertion: [UInt8]) throws(ProofFault) {
        guard (1...Self.sizeLimit).contains(assertion.count) else { throw .malformed(.signature, .assertionSize) }
        self.assertion = assertion
        isAlone = true
    }

    /// Checks the length of a signature by `ecdsa-p256-sha256`.
    ///
    /// - Throws: `malformed` of `signature`.
    public func checkECDSA() throws(ProofFault) {
        guard assertion.count == Self.signatureLength else { throw .malformed(.signature, .signatureLength) }
    }

    /// The value of Signature: `attest=:...:`.
    public var fieldValue: [UInt8] {
        var bytes = ProofName.label
        bytes.append(FieldByte.equals)
        FieldWriter.append(byteSequence: assertion.span, to: &bytes)
        return bytes
    }

    /// Only the assertion counts, because other members of the field do not belong to the proof.
    public static func == (left: ProofSignature, right: ProofSignature) -> Bool { left.assertion == right.assertion }

    private static func find(
        in field: Span<UInt8>, _ assertion: inout [UInt8], _ isAlone: inout Bool
    ) throws(Malformation) -> Bool {
        var parser = try FieldParser(field)
        var isFound = false
        while let label = try parser.nextMember() {
            let value = try parser.memberValue()
            guard field.extracting(label).isSame(as: ProofName.label) else {
                isAlone = false
                try parser.skip(value)
                continue
            }
            guard !isFound else { throw .labelRepeated }
            isFound = true
            guard case .item(.byteSequence(let range)) = value else { throw .notAByteSequence }
            guard try parser.nextParameter() == nil else { throw .parametersRefused }
            // Three bytes take four characters. A text that is too long is refused before decoding.
            guard range.count <= (sizeLimit + 2) / 3 * 4 else { throw .assertionSize }
            guard Base64.decode(field.extracting(range), appendingTo: &assertion) else { throw .base64 }
            guard (1...sizeLimit).contains(assertion.count) else { throw .assertionSize }
        }
        return isFound
    }
}

/// The client's side of a proof: the bytes to sign, and the two fields with the result.
///
/// Create one from the request's components, hash `signatureBase`, and have the device sign the hash. Then send
/// `signatureInput` and `signature`. An Android device signs the base itself, whose components include the counter.
public struct ProofBuilder: Sendable {
    /// The proof's components and parameters.
    public let input: SignatureInput

    /// Creates a builder.
    ///
    /// - Parameters:
    ///   - components: The components to cover, in this order: `Coverage.components` and those that the challenge
    ///     requests.
    ///   - nonce: The challenge from its `AcceptSignature`.
    ///   - created: The present time in seconds since 1970.
    ///   - expires: In seconds since 1970.
    /// - Throws: `malformed` of `signatureInput` if a component occurs twice or a value is invalid in a proof.
    public init(
        components: [Component], keyID: KeyID, nonce: [UInt8], created: Int64, expires: Int64? = nil,
        algorithm: ProofAlgorithm? = .appleAttest
    ) throws(ProofFault) {
        input = try SignatureInput(
            components: components, created: created, expires: expires, keyID: keyID, nonce: nonce,
            algorithm: algorithm)
    }

    /// The value of Signature-Input: `attest=(...);created=...`.
    public var signatureInput: [UInt8] { ProofName.label + [FieldByte.equals] + input.signatureParameters }

    /// Returns the bytes to sign. On iOS their SHA-256 is the client data hash.
    ///
    /// - Parameter fields: Adds the lines of a field, as in `SignatureBase.build`.
    /// - Throws: `fieldAbsent`, or `malformed` of `request`.
    public func signatureBase(
        of request: borrowing RequestParts, fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) -> [UInt8] {
        var base = SignatureBase()
        try base.build(input, of: request, fields: fields)
        return base.bytes
    }

    /// Returns the value of Signature: `attest=:...:`.
    ///
    /// - Parameter assertion: The device's assertion or signature, 1 to `ProofSignature.sizeLimit` bytes.
    /// - Throws: `malformed` of `signature`.
    public func signature(assertion: [UInt8]) throws(ProofFault) -> [UInt8] {
        try ProofSignature(assertion: assertion).fieldValue
    }
}
