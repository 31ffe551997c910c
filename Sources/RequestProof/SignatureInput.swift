internal import Encoding
public import Vocabulary

/// The member `attest` of Signature-Input (RFC 9421 section 4.1): the covered components and the parameters of a proof.
///
/// The form is canonical, each component occurs once, and all required parameters are present. The value has its own
/// copy of the member. One value serves all requests of a connection by `init(parsing:reusing:)`.
public struct SignatureInput: Equatable, Sendable {
    /// A covered component. A field's name is a range of `signatureParameters`.
    public enum Covered: Equatable, Sendable {
        case method
        case authority
        case path
        case query
        case field(name: Range<Int>)
    }

    /// The inner list with its parameters: the value of `@signature-params`, without the label.
    public let signatureParameters: [UInt8]
    /// The covered components in the order of the signature base.
    public let components: [Covered]
    /// The time of creation in seconds since 1970, not negative.
    public let created: Int64
    /// The end of validity in seconds since 1970, not negative. Nil if the proof states none.
    public let expires: Int64?
    public let keyID: KeyID
    /// The algorithm that the proof states, if any.
    public let algorithm: ProofAlgorithm?
    /// Whether the field has no other member and therefore concerns only the gateway.
    public let isAlone: Bool
    private let nonceRange: Range<Int>
    let known: KnownComponents

    /// Length limit of a nonce in bytes. Challenges are shorter.
    public static let nonceLimit = 512

    /// Parses the field.
    ///
    /// - Parameters:
    ///   - field: The value of Signature-Input, with several lines combined by `CombinedField`.
    ///   - previous: A value whose memory is reused. If it is passed with `consume`, parsing allocates nothing.
    /// - Throws: `missing` or `malformed` of `signatureInput`.
    public init(
        parsing field: Span<UInt8>, reusing previous: consuming SignatureInput? = nil
    ) throws(ProofFault) {
        let found: SignatureInput?
        do throws(Malformation) {
            found = try Self.find(in: field, SignatureInputDraft(reusing: consume previous))
        } catch {
            throw .malformed(.signatureInput, error)
        }
        guard let found else { throw .missing(.signatureInput) }
        self = found
    }

    /// Creates a value.
    ///
    /// - Throws: `malformed` of `signatureInput` if a component occurs twice or a value is invalid in a proof.
    init(
        components: [Component], created: Int64, expires: Int64?, keyID: KeyID, nonce: [UInt8],
        algorithm: ProofAlgorithm?
    ) throws(ProofFault) {
        do throws(Malformation) {
            var draft = SignatureInputDraft(reusing: nil)
            draft.begin()
            for component in components { try draft.add(component: component.name) }
            draft.endComponents()
            try draft.add(.created, integer: created)
            if let expires { try draft.add(.expires, integer: expires) }
            var keyIDText: [UInt8] = []
            Base64.encode(keyID.bytes.span, appendingTo: &keyIDText)
            try draft.add(.keyid, string: keyIDText)
            try draft.add(.nonce, string: nonce)
            if let algorithm { try draft.add(.alg, string: algorithm.text) }
            try draft.add(.tag, string: ProofName.tag)
            self = try draft.finished(isAlone: true)
        } catch {
            throw .malformed(.signatureInput, error)
        }
    }

    init(
        text: [UInt8], components: [Covered], known: KnownComponents, created: Int64, expires: Int64?, keyID: KeyID,
        nonceRange: Range<Int>, algorithm: ProofAlgorithm?, isAlone: Bool
    ) {
        signatureParameters = text
        self.components = components
        self.known = known
        self.created = created
        self.expires = expires
        self.keyID = keyID
        self.nonceRange = nonceRange
        self.algorithm = algorithm
        self.isAlone = isAlone
    }

    /// Only the member counts, because other members of the field do not belong to the proof.
    public static func == (left: SignatureInput, right: SignatureInput) -> Bool {
        left.signatureParameters == right.signatureParameters
    }

    /// The challenge as sent: 1 to `nonceLimit` printable ASCII characters without quotes and backslashes.
    public var nonce: Span<UInt8> {
        @_lifetime(borrow self)
        get { signatureParameters.span.extracting(nonceRange) }
    }

    /// Returns whether the field is covered.
    public func covers(_ field: FieldComponent) -> Bool {
        for case .field(let range) in components
        where signatureParameters.span.extracting(range).isSame(as: field.name) {
            return true
        }
        return false
    }

    /// The covered components with copied names. It allocates, so it is only for logs and tests.
    public var componentNames: [Component] {
        components.compactMap { component in
            switch component {
            case .method: .method
            case .authority: .authority
            case .path: .path
            case .query: .query
            case .field(let range): FieldComponent(signatureParameters.span.extracting(range)).map(Component.field)
            }
        }
    }
}

extension SignatureInput {
    /// Finds and parses the member `attest`.
    ///
    /// - Returns: nil if there is no such member.
    private static func find(
        in field: Span<UInt8>, _ draft: consuming SignatureInputDraft
    ) throws(Malformation) -> SignatureInput? {
        var parser = try FieldParser(field)
        var isFound = false
        var isAlone = true
        while let label = try parser.nextMember() {
            if field.extracting(label).isSame(as: ProofName.label) {
                // The last member with a key would win (RFC 8941 section 4.2.2), so two verifiers could read two
                // proofs.
                guard !isFound else { throw .labelRepeated }
                isFound = true
                try draft.read(&parser, of: field)
            } else {
                isAlone = false
                try skip(&parser, of: field)
            }
        }
        return isFound ? try draft.finished(isAlone: isAlone) : nil
    }

    /// Skips a member with another label, which must not have the tag of this protocol.
    private static func skip(_ parser: inout FieldParser, of field: Span<UInt8>) throws(Malformation) {
        if try parser.memberValue() == .innerList {
            while try parser.nextInnerItem() != nil {
                while try parser.nextParameter() != nil {}
            }
        }
        while let (key, value) = try parser.nextParameter() {
            guard SignatureParameter.find(field.extracting(key)) == .tag, case .string(let range) = value else {
                continue
            }
            guard !field.extracting(range).isSame(as: ProofName.tag) else { throw .tagElsewhere }
        }
    }
}

/// The members of Signature-Input and Signature with labels other than the gateway's.
///
/// A proof is for the gateway. A service must not receive it, because it might trust a proof that the gateway did not
/// verify. Signatures with other labels are forwarded unchanged.
public enum ForeignMembers {
    /// Appends the members of one line of the field unchanged, separated by `, `.
    ///
    /// - Parameter line: The value of one line. A line that is not a dictionary has no members.
    public static func append(of line: Span<UInt8>, to bytes: inout [UInt8]) {
        let before = bytes.count
        do throws(Malformation) {
            var parser = try FieldParser(line)
            while let label = try parser.nextMember() {
                try parser.skip(try parser.memberValue())
                guard !line.extracting(label).isSame(as: ProofName.label) else { continue }
                if bytes.count > before {
                    bytes.append(FieldByte.comma)
                    bytes.append(FieldByte.space)
                }
                bytes.append(line.extracting(label.lowerBound..<parser.position))
            }
        } catch {
            bytes.removeLast(bytes.count - before)
        }
    }
}
