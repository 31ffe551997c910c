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
