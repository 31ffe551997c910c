internal import Encoding
import Vocabulary

/// A `SignatureInput` under construction, from a parser or a client.
///
/// It writes the canonical form of everything added. A parsed member is accepted only if it equals that form byte for
/// byte. Therefore each proof has one spelling, and signer and verifier hash the same `@signature-params`.
struct SignatureInputDraft: ~Copyable {
    private var text: [UInt8]
    private var components: [SignatureInput.Covered]
    private var known: KnownComponents = []
    private var isPresent: UInt8 = 0
    private var created: Int64 = 0
    private var expires: Int64?
    private var keyID: KeyID?
    private var nonce = 0..<0
    private var algorithm: ProofAlgorithm?

    init(reusing previous: consuming SignatureInput?) {
        text = previous?.signatureParameters ?? []
        components = previous?.components ?? []
        // Without the value, both arrays have only these references and keep their memory.
        previous = nil
        text.removeAll(keepingCapacity: true)
        components.removeAll(keepingCapacity: true)
    }

    /// Parses the value of a member whose key was just parsed.
    mutating func read(_ parser: inout FieldParser, of field: Span<UInt8>) throws(Malformation) {
        guard try parser.memberValue() == .innerList else { throw .notAnInnerList }
        let start = parser.position - 1
        begin()
        while let item = try parser.nextInnerItem() {
            guard case .string(let range) = item else { throw .componentNotAString }
            try add(component: field.extracting(range))
            guard try parser.nextParameter() == nil else { throw .componentWithParameters }
        }
        endComponents()
        while let (key, value) = try parser.nextParameter() {
            guard let parameter = SignatureParameter.find(field.extracting(key)) else { throw .parameterUnknown }
            switch (parameter, value) {
            case (.created, .integer(let value)), (.expires, .integer(let value)):
                try add(parameter, integer: value)
            case (.keyid, .string(let range)), (.nonce, .string(let range)), (.alg, .string(let range)),
                (.tag, .string(let range)):
                try add(parameter, string: field.extracting(range))
            default: throw .parameter(parameter, .type)
            }
        }
        guard text.span.isSame(as: field.extracting(start..<parser.position)) else { throw .notCanonical }
    }

    mutating func begin() {
        // Memory for a typical proof.
        text.reserveCapacity(384)
        components.reserveCapacity(12)
        text.append(FieldByte.open)
    }

    mutating func add(component name: Span<UInt8>) throws(Malformation) {
        if !components.isEmpty { text.append(FieldByte.space) }
        let start = text.count + 1
        let component = try covered(name, at: start..<(start + name.count))
        guard components.count < FieldParser.Limit.items else { throw .tooMany }
        FieldWriter.append(escapedString: name, to: &text)
        components.append(component)
    }

    mutating func add(component name: [UInt8]) throws(Malformation) {
        try add(component: name.span)
    }

    mutating func add(_ parameter: SignatureParameter, string content: [UInt8]) throws(Malformation) {
        try add(parameter, string: content.span)
    }

    mutating func endComponents() {
        text.append(FieldByte.close)
    }

    mutating func add(_ parameter: SignatureParameter, integer value: Int64) throws(Malformation) {
        try note(parameter)
        // Refuses times before 1970, and numbers that a structured field cannot hold (RFC 8941 section 3.3.1).
        guard (0...999_999_999_999_999).contains(value) else { throw .parameter(parameter, .value) }
        if parameter == .created { created = value } else { expires = value }
        FieldWriter.append(parameter: parameter.key, integer: value, to: &text)
    }

    mutating func add(_ parameter: SignatureParameter, string content: Span<UInt8>) throws(Malformation) {
        try note(parameter)
        switch parameter {
        case .keyid: keyID = try decode(keyID: content)
        case .nonce:
            guard content.count <= SignatureInput.nonceLimit, ProofText.isPlain(content) else {
                throw .parameter(.nonce, .value)
            }
            // The position after `;nonce="`.
            let start = text.count + parameter.key.count + 3
            nonce = start..<(start + content.count)
        case .alg:
            guard let found = ProofAlgorithm.find(content) else { throw .parameter(.alg, .value) }
            algorithm = found
        default:
            guard content.isSame(as: ProofName.tag) else { throw .parameter(.tag, .value) }
        }
        FieldWriter.append(parameter: parameter.key, escapedString: content, to: &text)
    }

    /// Returns the finished value.
    ///
    /// - Parameter isAlone: Whether it is the only member of its field.
    consuming func finished(isAlone: Bool) throws(Malformation) -> SignatureInput {
        for parameter in [SignatureParameter.created, .nonce, .tag] where isPresent & bit(parameter) == 0 {
            throw .parameter(parameter, .missing)
        }
        guard let keyID else { throw .parameter(.keyid, .missing) }
        return SignatureInput(
            text: text, components: components, known: known, created: created, expires: expires, keyID: keyID,
            nonceRange: nonce, algorithm: algorithm, isAlone: isAlone)
    }

    private func bit(_ parameter: SignatureParameter) -> UInt8 { 1 << parameter.rawValue }

    private mutating func note(_ parameter: SignatureParameter) throws(Malformation) {
        guard isPresent & bit(parameter) == 0 else { throw .parameter(parameter, .repeated) }
        isPresent |= bit(parameter)
    }

    /// Returns the component of a name.
    ///
    /// - Parameter range: The future position of the name in `text`.
    private mutating func covered(
        _ name: Span<UInt8>, at range: Range<Int>
    ) throws(Malformation) -> SignatureInput.Covered {
        if let found = KnownComponent.find(name) {
            guard !known.contains(KnownComponents(found)) else { throw .componentRepeated }
            known.insert(KnownComponents(found))
            switch found {
            case .method: return .method
            case .authority: return .authority
            case .path: return .path
            case .query: return .query
            case .contentDigest, .authorization, .contentType, .contentEncoding, .proofCounter:
                return .field(name: range)
            }
        }
        guard FieldComponent.isName(name) else { throw .componentUnknown }
        for case .field(let earlier) in components where text.span.extracting(earlier).isSame(as: name) {
            throw .componentRepeated
        }
        return .field(name: range)
    }

    /// Decodes a key id in canonical base64. The parameter is compared as bytes from here on.
    private mutating func decode(keyID content: Span<UInt8>) throws(Malformation) -> KeyID {
        // The end of the text serves as temporary memory, so that decoding allocates nothing.
        let end = text.count
        guard content.count == 44, Base64.decode(content, appendingTo: &text) else { throw .parameter(.keyid, .value) }
        let keyID = KeyID(digest: text.span.extracting(end...))
        text.removeLast(text.count - end)
        guard let keyID else { throw .parameter(.keyid, .value) }
        return keyID
    }
}

/// Rules for the texts of a proof.
enum ProofText {
    /// Returns whether the bytes are one or more printable ASCII characters that need no escape in a string.
    static func isPlain(_ content: Span<UInt8>) -> Bool {
        content.count > 0 && content.firstMarked(from: 0) { $0.marksInString } == content.count
    }
}
