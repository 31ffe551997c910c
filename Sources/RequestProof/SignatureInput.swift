public import Vocabulary

/// The member `attest` of Signature-Input (RFC 9421 section 4.1): which components a proof covers, and its parameters.
///
/// Its form is canonical, every component occurs once, and every parameter that must be there is there. The value keeps
/// its own copy of the member; one value serves all requests of a connection by `init(parsing:reusing:)`.
public struct SignatureInput: Equatable, Sendable {
    /// A covered component; a field's name is a range of `signatureParameters`.
    public enum Covered: Equatable, Sendable {
        case method
        case authority
        case path
        case query
        case field(name: Range<Int>)
    }

    /// The inner list with its parameters: the value of `@signature-params`, without the label.
    public let signatureParameters: [UInt8]
    /// In the order of the signature base.
    public let components: [Covered]
    /// When the proof was made: seconds since 1970, not negative.
    public let created: Int64
    /// When the proof ends, if it says so: seconds since 1970, not negative.
    public let expires: Int64?
    public let keyID: KeyID
    /// What the proof says it was made with, if it does.
    public let algorithm: ProofAlgorithm?
    /// Whether the field had no other member: then it says nothing to anybody else.
    public let isAlone: Bool
    private let nonceRange: Range<Int>
    let known: KnownComponents

    /// Bytes of a nonce; a challenge has fewer.
    public static let nonceLimit = 512

    /// - Parameters:
    ///   - field: the value of Signature-Input; several lines combined by `CombinedField`.
    ///   - previous: a value no longer needed, whose memory is used again; given by `consume`, parsing allocates nothing.
    /// - Throws: `missing` or `malformed`, of `signatureInput`.
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

    /// - Throws: `malformed` of `signatureInput`: a component occurs twice, or a value is none a proof can have.
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

    /// All of a proof follows from its member's text; what else is in the field is not the proof's.
    public static func == (left: SignatureInput, right: SignatureInput) -> Bool {
        left.signatureParameters == right.signatureParameters
    }

    /// The challenge as sent: 1 to `nonceLimit` printable characters of ASCII, none of them a quote or a backslash.
    public var nonce: Span<UInt8> {
        @_lifetime(borrow self)
        get { signatureParameters.span.extracting(nonceRange) }
    }

    /// Whether the field is covered.
    public func covers(_ field: FieldComponent) -> Bool {
        for case .field(let range) in components
        where signatureParameters.span.extracting(range).isSame(as: field.name) {
            return true
        }
        return false
    }

    /// The covered components with names of their own: for logs and tests, as it allocates.
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
    /// - Returns: nil if no member is labelled `attest`.
    private static func find(
        in field: Span<UInt8>, _ draft: consuming SignatureInputDraft
    ) throws(Malformation) -> SignatureInput? {
        var parser = try FieldParser(field)
        var isFound = false
        var isAlone = true
        while let label = try parser.nextMember() {
            if field.extracting(label).isSame(as: ProofName.label) {
                // A dictionary's last member of a name would win (RFC 8941 section 4.2.2): two verifiers could read two
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

    /// Walks over another's member, which must not pass for ours.
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

/// What others signed in the same fields: all members of Signature-Input and Signature but ours.
///
/// A proof is for the gateway. What the gateway has judged, or has let pass unjudged on a route that demands no proof,
/// must not reach a service that might believe it; a signature under another label is none of the gateway's business.
public enum ForeignMembers {
    /// Appends the members of one line of the field, as they stand, separated by `, `.
    ///
    /// - Parameter line: the value of one line; one that is no dictionary of structured fields has no members.
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
