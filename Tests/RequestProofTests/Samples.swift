import RequestProof
import Testing
import Vocabulary

/// Texts and bytes of proofs, with functions that parse them.
enum Sample {
    /// The bytes 0 to 31.
    static let keyIDText = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    static let keyIDBytes = (0..<32).map { UInt8($0) }
    static let components = #"("@method" "@authority" "@path" "@query")"#
    static let parameters = #";created=1763690000;keyid="\#(keyIDText)";nonce="abc";tag="attestgate-request""#
    /// A complete Signature-Input.
    static let input = "attest=" + components + parameters

    static func keyID(_ bytes: [UInt8] = keyIDBytes) throws -> KeyID {
        let keyID = KeyID(digest: bytes.span)
        return try #require(keyID)
    }

    /// Returns a Signature-Input with these components and parameters.
    static func input(_ components: String, _ parameters: String = parameters) -> String {
        "attest=(\(components))\(parameters)"
    }
}

enum Parsing {
    static func input(_ text: String) throws(ProofFault) -> SignatureInput {
        try SignatureInput(parsing: Array(text.utf8).span)
    }

    /// Returns the reason why Signature-Input is refused, or nil.
    static func fault(_ text: String) -> Malformation? { fault(Array(text.utf8)) }

    static func fault(_ bytes: [UInt8]) -> Malformation? {
        do throws(ProofFault) {
            _ = try SignatureInput(parsing: bytes.span)
            return nil
        } catch {
            guard case .malformed(.signatureInput, let malformation) = error else {
                Issue.record("refused as \(error)")
                return nil
            }
            return malformation
        }
    }

    /// Returns the combined lines of one field.
    static func combined(_ lines: [String]) -> [UInt8] {
        var field = CombinedField()
        for line in lines { field.add(Array(line.utf8).span) }
        let value = field.value
        return value.indices.map { value[$0] }
    }

    /// Returns the signature base of a request described by texts. Fields may have several lines.
    static func base(
        _ input: SignatureInput, method: String = "GET", authority: String = "example.com", path: String = "/",
        query: String = "", fields: [(String, String)] = []
    ) throws(ProofFault) -> String {
        let parts = (Array(method.utf8), Array(authority.utf8), Array(path.utf8), Array(query.utf8))
        var base = SignatureBase()
        try base.build(
            input,
            of: RequestParts(method: parts.0.span, authority: parts.1.span, path: parts.2.span, query: parts.3.span),
            fields: lookup(fields))
        return text(base.bytes)
    }

    static func lookup(_ fields: [(String, String)]) -> (Span<UInt8>, inout CombinedField) -> Void {
        { name, value in
            let name = text(name.indices.map { name[$0] })
            for (candidate, line) in fields where candidate.lowercased() == name {
                value.add(Array(line.utf8).span)
            }
        }
    }

    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
