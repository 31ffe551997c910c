internal import Encoding
public import Vocabulary

/// The member `attest` of Accept-Signature (RFC 9421 section 5). It requests a proof and contains the challenge.
///
/// `attest=("@method" "@authority" "@path" "@query");created;nonce="...";tag="attestgate-request"`. In a request for a
/// signature, `created` has no value, and `keyid` is optional (RFC 9421 section 5.1). A gateway can omit it, because
/// every proof names its key.
public struct AcceptSignature: Equatable, Sendable {
    /// The components that the proof must cover. It must also cover what else the request has, such as content.
    public let components: [Component]
    /// The challenge: 1 to `SignatureInput.nonceLimit` printable ASCII characters without quotes and backslashes.
    public let nonce: [UInt8]
    /// The requested key, if any.
    public let keyID: KeyID?
    /// The requested algorithm, if any.
    public let algorithm: ProofAlgorithm?

    /// Creates a value.
    ///
    /// - Throws: `malformed` of `acceptSignature` if a component occurs twice or the nonce is invalid.
    public init(
        components: [Component], nonce: [UInt8], keyID: KeyID? = nil, algorithm: ProofAlgorithm? = nil
    ) throws(ProofFault) {
        guard components.count <= FieldParser.Limit.items else { throw .malformed(.acceptSignature, .tooMany) }
        for (place, component) in components.enumerated() where components[..<place].contains(component) {
            throw .malformed(.acceptSignature, .componentRepeated)
        }
        guard nonce.count <= SignatureInput.nonceLimit, ProofText.isPlain(nonce.span) else {
            throw .malformed(.acceptSignature, .parameter(.nonce, .value))
        }
        self.components = components
        self.nonce = nonce
        self.keyID = keyID
        self.algorithm = algorithm
    }

    /// Parses the field. Unknown parameters are refused, because a signer that cannot do what is requested must fail
    /// (RFC 9421 section 5.2).
    ///
    /// - Parameter field: The value of Accept-Signature, with several lines combined by `CombinedField`.
    /// - Throws: `missing` or `malformed` of `acceptSignature`.
    public init(parsing field: Span<UInt8>) throws(ProofFault) {
        var request: AcceptSignatureReader?
        do throws(Malformation) {
            var parser = try FieldParser(field)
            while let label = try parser.nextMember() {
                let value = try parser.memberValue()
                guard field.extracting(label).isSame(as: ProofName.label) else {
                    try parser.skip(value)
                    continue
                }
                guard request == nil else { throw .labelRepeated }
                guard value == .innerList else { throw .notAnInnerList }
                request = try AcceptSignatureReader(&parser, of: field)
            }
        } catch {
            throw .malformed(.acceptSignature, error)
        }
        guard let request else { throw .missing(.acceptSignature) }
        guard let nonce = request.nonce else { throw .malformed(.acceptSignature, .parameter(.nonce, .missing)) }
        try self.init(
            components: request.components, nonce: nonce, keyID: request.keyID, algorithm: request.algorithm)
    }

    /// The value of Accept-Signature.
    public var fieldValue: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    /// Appends the value of Accept-Signature.
    public func append(to bytes: inout [UInt8]) {
        bytes.append(contentsOf: ProofName.label)
        bytes.append(FieldByte.equals)
        bytes.append(FieldByte.open)
        for (place, component) in components.enumerated() {
            if place > 0 { bytes.append(FieldByte.space) }
            FieldWriter.append(escapedString: component.name.span, to: &bytes)
        }
        bytes.append(FieldByte.close)
        FieldWriter.append(parameter: SignatureParameter.created.key, to: &bytes)
        if let keyID {
            var text: [UInt8] = []
            Base64.encode(keyID.bytes.span, appendingTo: &text)
            FieldWriter.append(parameter: SignatureParameter.keyid.key, escapedString: text, to: &bytes)
        }
        FieldWriter.append(parameter: SignatureParameter.nonce.key, escapedString: nonce, to: &bytes)
        if let algorithm {
            FieldWriter.append(parameter: SignatureParameter.alg.key, escapedString: algorithm.text, to: &bytes)
        }
        FieldWriter.append(parameter: SignatureParameter.tag.key, escapedString: ProofName.tag, to: &bytes)
    }
}

/// The parsed content of one member of Accept-Signature.
private struct AcceptSignatureReader {
    var components: [Component] = []
    var nonce: [UInt8]?
    var keyID: KeyID?
    var algorithm: ProofAlgorithm?
    private var present: Set<SignatureParameter> = []

    /// Parses the rest of a member.
    ///
    /// - Parameter parser: Positioned after the opening parenthesis.
    init(_ parser: inout FieldParser, of field: Span<UInt8>) throws(Malformation) {
        while let item = try parser.nextInnerItem() {
            guard case .string(let range) = item else { throw .componentNotAString }
            components.append(try Self.component(field.extracting(range)))
            guard try parser.nextParameter() == nil else { throw .componentWithParameters }
        }
        while let (key, value) = try parser.nextParameter() {
            guard let parameter = SignatureParameter.find(field.extracting(key)), parameter != .expires else {
                throw .parameterUnknown
            }
            guard present.insert(parameter).inserted else { throw .parameter(parameter, .repeated) }
            if parameter == .created {
                guard value == .boolean(true) else { throw .parameter(.created, .type) }
                continue
            }
            guard case .string(let range) = value else { throw .parameter(parameter, .type) }
            try take(parameter, field.extracting(range))
        }
        for parameter in [SignatureParameter.created, .tag] where !present.contains(parameter) {
            throw .parameter(parameter, .missing)
        }
    }

    private mutating func take(_ parameter: SignatureParameter, _ content: Span<UInt8>) throws(Malformation) {
        switch parameter {
        case .created, .expires: break
        case .nonce: nonce = [UInt8](content)
        case .keyid:
            var bytes: [UInt8] = []
            guard content.count == 44, Base64.decode(content, appendingTo: &bytes),
                let found = KeyID(digest: bytes.span)
            else { throw .parameter(.keyid, .value) }
            keyID = found
        case .alg:
            guard let found = ProofAlgorithm.find(content) else { throw .parameter(.alg, .value) }
            algorithm = found
        case .tag:
            guard content.isSame(as: ProofName.tag) else { throw .parameter(.tag, .value) }
        }
    }

    private static func component(_ name: Span<UInt8>) throws(Malformation) -> Component {
        if let known = KnownComponent.find(name) { return known.component }
        guard FieldComponent.isName(name), let field = FieldComponent(name) else { throw .componentUnknown }
        return .field(field)
    }
}
