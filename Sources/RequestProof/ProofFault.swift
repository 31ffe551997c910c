/// The reason why a request has no verifiable proof. Every parser of this module fails with this type only. No case
/// contains bytes of the proof, so faults may be logged.
public enum ProofFault: Error, Equatable, Sendable {
    /// The field is absent or has no member with the label `attest`. Leads to `proof_required`.
    case missing(ProofField)
    /// The field violates the protocol. Leads to `proof_malformed`.
    case malformed(ProofField, Malformation)
    /// The proof does not cover a required component. Leads to `proof_incomplete`, which names the component.
    case incomplete(Component)
    /// The proof covers a field that the request does not have. The number is the component's index in
    /// `SignatureInput.components`. Leads to `proof_incomplete`.
    case fieldAbsent(place: Int)
}

/// The field with the fault.
public enum ProofField: Sendable, CaseIterable {
    case signatureInput
    case signature
    case contentDigest
    case acceptSignature
    case proofCounter
    /// The request of a signature base.
    case request

    /// The field's name for people.
    public var name: StaticString {
        switch self {
        case .signatureInput: "Signature-Input"
        case .signature: "Signature"
        case .contentDigest: "Content-Digest"
        case .acceptSignature: "Accept-Signature"
        case .proofCounter: "Attest-Proof-Counter"
        case .request: "the request"
        }
    }
}

/// The kind of malformation.
public enum Malformation: Error, Equatable, Sendable {
    // Structured fields (RFC 8941).
    /// The field is not a dictionary, or has a type that no field of a proof uses.
    case syntax
    /// A number has more than 15 digits, or more than 12 before or 3 after the decimal point.
    case numberTooLong
    /// A text is not canonical base64, with padding and zero bits at the end.
    case base64
    case tooLong
    case tooMany
    // Members.
    case labelRepeated
    /// A member with another label has the tag of this protocol.
    case tagElsewhere
    case notAnInnerList
    case notAByteSequence
    /// A member has parameters where none are permitted.
    case parametersRefused
    /// The field is well-formed, but not in the form of a serializer (RFC 8941 section 4.1).
    case notCanonical
    // Components (RFC 9421 section 2).
    case componentNotAString
    case componentWithParameters
    /// A component is neither a lower-case field name nor one of `@method`, `@authority`, `@path`, `@query`.
    case componentUnknown
    case componentRepeated
    // Signature parameters (RFC 9421 section 2.3).
    case parameterUnknown
    case parameter(SignatureParameter, Flaw)
    // The assertion or signature.
    /// The assertion is empty or larger than `ProofSignature.sizeLimit`.
    case assertionSize
    /// The signature does not have the length that the device's algorithm requires.
    case signatureLength
    // The counter.
    /// The counter is not one number from 1 to 2^32-1 in its only spelling.
    case counterValue
    // Content-Digest (RFC 9530).
    case algorithmRepeated
    case digestLength
    /// Neither sha-256 nor sha-512 is present.
    case digestAlgorithms
    // The request.
    /// A component's value contains a control character or a byte outside ASCII (RFC 9421 section 2.5), or is empty
    /// without meaning.
    case componentValue

    /// The fault of one signature parameter.
    public enum Flaw: Sendable, CaseIterable {
        case missing
        case repeated
        case type
        case value
    }
}

extension ProofFault {
    /// The denial that the fault leads to.
    public enum Kind: Sendable {
        case required
        case malformed
        case incomplete
    }

    public var kind: Kind {
        switch self {
        case .missing: .required
        case .malformed: .malformed
        case .incomplete, .fieldAbsent: .incomplete
        }
    }
}

extension ProofFault: CustomStringConvertible {
    /// A description for the log and the developer of the client: a phrase without a full stop.
    public var description: String {
        switch self {
        case .missing(let field): "\(field.name) has no member attest"
        case .malformed(let field, let malformation): "\(field.name): \(malformation)"
        case .incomplete(let component): "the proof does not cover \(component)"
        case .fieldAbsent(let place): "the request lacks the field of covered component \(place + 1)"
        }
    }
}

extension Malformation: CustomStringConvertible {
    public var description: String {
        switch self {
        case .syntax: "not a dictionary of structured fields"
        case .numberTooLong: "a number has too many digits"
        case .base64: "not base64 with padding and zero pad bits"
        case .tooLong: "too long"
        case .tooMany: "too many members, items or parameters"
        case .labelRepeated: "the member attest occurs more than once"
        case .tagElsewhere: "a member with another label carries the tag of a proof"
        case .notAnInnerList: "the member attest is not an inner list"
        case .notAByteSequence: "the value is not a byte sequence"
        case .parametersRefused: "the member has parameters"
        case .notCanonical: "the member is not in its canonical form"
        case .componentNotAString: "a covered component is not a string"
        case .componentWithParameters: "a covered component has parameters"
        case .componentUnknown: "a covered component is neither a lower-case field name nor a known derived one"
        case .componentRepeated: "a component is covered more than once"
        case .parameterUnknown: "an unknown signature parameter"
        case .parameter(let parameter, .missing): "the parameter \(parameter) is missing"
        case .parameter(let parameter, .repeated): "the parameter \(parameter) occurs more than once"
        case .parameter(let parameter, .type): "the parameter \(parameter) has a value of the wrong type"
        case .parameter(let parameter, .value): "the parameter \(parameter) has a value that is not allowed"
        case .assertionSize: "the assertion is empty or too large"
        case .signatureLength: "the signature does not have 64 bytes"
        case .counterValue: "not one decimal number from 1 to 4294967295 without sign and leading zeros"
        case .algorithmRepeated: "a digest algorithm occurs more than once"
        case .digestLength: "a digest has the wrong length"
        case .digestAlgorithms: "there is neither sha-256 nor sha-512"
        case .componentValue: "the value of a covered component cannot be in a signature base"
        }
    }
}
