public import Vocabulary

/// The member `attest` of Signature (RFC 9421 section 4.2): the assertion, as a byte sequence.
public struct ProofSignature: Equatable, Sendable {
    /// The assertion, 1 to `sizeLimit` bytes. What is in it is looked at elsewhere.
    public let assertion: [UInt8]
    /// Whether the field had no other member: then it says nothing to anybody else.
    public let isAlone: Bool

    /// Bytes of an assertion; genuine ones have about 140, with extensions a few hundred.
    public static let sizeLimit = 4_096

    /// - Parameters:
    ///   - field: the value of Signature; several lines combined by `CombinedField`.
    ///   - previous: a value no longer needed, whose memory is used again; given by `consume`, parsing allocates nothing.
    /// - Throws: `missing` or `malformed`, of `signature`.
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

    /// - Throws: `malformed` of `signature`, if there are too few or too many bytes.
    public init(assertion: [UInt8]) throws(ProofFault) {
        guard (1...Self.sizeLimit).contains(assertion.count) else { throw .malformed(.signature, .assertionSize) }
        self.assertion = assertion
        isAlone = true
    }

    /// The value of Signature: `attest=:...:`.
    public var fieldValue: [UInt8] {
        var bytes = ProofName.label
        bytes.append(FieldByte.equals)
        FieldWriter.append(byteSequence: assertion.span, to: &bytes)
        return bytes
    }

    /// What else is in the field is not the proof's.
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
            // Four characters stand for three bytes; what is too long is not decoded first.
            guard range.count <= (sizeLimit + 2) / 3 * 4 else { throw .assertionSize }
            guard Base64.decode(field.extracting(range), appendingTo: &assertion) else { throw .base64 }
            guard (1...sizeLimit).contains(assertion.count) else { throw .assertionSize }
        }
        return isFound
    }
}

/// The client's side of a proof: what it is to sign, and the two fields that carry the result.
///
/// Make one from the request's components, hash `signatureBase`, have the device sign the hash, and send
/// `signatureInput` and `signature`.
public struct ProofBuilder: Sendable {
    /// The proof's components and parameters.
    public let input: SignatureInput

    /// - Parameters:
    ///   - components: what to cover, in this order; `Coverage.components` and whatever the challenge asks for.
    ///   - nonce: the challenge, as its `AcceptSignature` has it.
    ///   - created: now, in seconds since 1970.
    ///   - expires: seconds since 1970.
    /// - Throws: `malformed` of `signatureInput`, if a component occurs twice or a value is none that a proof can have.
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

    /// The bytes to sign: on iOS their SHA-256 is the client data hash.
    ///
    /// - Parameter fields: as `SignatureBase.build` has it.
    /// - Throws: `fieldAbsent`, or `malformed` of `request`.
    public func signatureBase(
        of request: borrowing RequestParts, fields: (_ name: Span<UInt8>, _ value: inout CombinedField) -> Void
    ) throws(ProofFault) -> [UInt8] {
        var base = SignatureBase()
        try base.build(input, of: request, fields: fields)
        return base.bytes
    }

    /// The value of Signature: `attest=:...:`.
    ///
    /// - Parameter assertion: what the device returned, 1 to `ProofSignature.sizeLimit` bytes.
    /// - Throws: `malformed` of `signature`.
    public func signature(assertion: [UInt8]) throws(ProofFault) -> [UInt8] {
        try ProofSignature(assertion: assertion).fieldValue
    }
}
