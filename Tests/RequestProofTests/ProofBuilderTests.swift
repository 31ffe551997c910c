import Chance
import RequestProof
import Testing
import Vocabulary

@Suite("Building proofs")
struct ProofBuilderTests {
    @Test("the fields have the documented form")
    func form() throws {
        let builder = try ProofBuilder(
            components: Coverage().components(for: .content), keyID: try Sample.keyID(), nonce: Array("abc".utf8),
            created: 1_763_690_000)
        #expect(
            Parsing.text(builder.signatureInput)
                == #"attest=("@method" "@authority" "@path" "@query" "content-digest");created=1763690000;"#
                + #"keyid="\#(Sample.keyIDText)";nonce="abc";alg="apple-attest";tag="attestgate-request""#)
        #expect(Parsing.text(try builder.signature(assertion: Array("foo".utf8))) == "attest=:Zm9v:")
    }

    @Test("a proof that no gateway accepts is not built")
    func refused() throws {
        let keyID = try Sample.keyID()
        func fault(
            _ components: [Component] = [], nonce: [UInt8] = [0x61], created: Int64 = 1, expires: Int64? = nil
        ) -> ProofFault? {
            do throws(ProofFault) {
                _ = try ProofBuilder(
                    components: components, keyID: keyID, nonce: nonce, created: created, expires: expires)
                return nil
            } catch {
                return error
            }
        }
        #expect(fault() == nil)
        #expect(fault([.path, .path]) == .malformed(.signatureInput, .componentRepeated))
        #expect(fault(nonce: []) == .malformed(.signatureInput, .parameter(.nonce, .value)))
        #expect(fault(nonce: [0x22]) == .malformed(.signatureInput, .parameter(.nonce, .value)))
        #expect(fault(created: -1) == .malformed(.signatureInput, .parameter(.created, .value)))
        #expect(fault(expires: 1_000_000_000_000_000) == .malformed(.signatureInput, .parameter(.expires, .value)))
    }

    @Test("random requests verify with the same meaning on both sides")
    func roundTrip() throws {
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for round in 0..<500 {
            let request = RandomRequest(&generator)
            let components = try request.components(&generator)
            let keyBytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let keyID = try Sample.keyID(keyBytes)
            let nonce = Array(RandomRequest.text(1...512, except: ["\"", "\\"], &generator).utf8)
            let builder = try ProofBuilder(
                components: components, keyID: keyID, nonce: nonce,
                created: Int64.random(in: 0...999_999_999_999_999, using: &generator),
                expires: Bool.random(using: &generator) ? Int64.random(in: 0...9_999, using: &generator) : nil,
                algorithm: [nil, .appleAttest, .ecdsaP256SHA256].randomElement(using: &generator) ?? nil)
            let parsed = try SignatureInput(parsing: builder.signatureInput.span)
            #expect(parsed == builder.input, "seed \(seed), round \(round)")
            #expect(parsed.componentNames == components)
            #expect(parsed.keyID == keyID && parsed.keyID.bytes == keyBytes)
            let parts = request.parts
            let client = try builder.signatureBase(
                of: RequestParts(
                    method: parts.0.span, authority: parts.1.span, path: parts.2.span, query: parts.3.span),
                fields: Parsing.lookup(request.fields))
            let gateway = try Parsing.base(
                parsed, method: request.method, authority: request.authority, path: request.path,
                query: request.query, fields: request.fields.map { ($0.0.uppercased(), " \($0.1)\t") })
            #expect(Parsing.text(client) == gateway, "seed \(seed), round \(round)")
            #expect(gateway.split(separator: "\n", omittingEmptySubsequences: false).count == components.count + 1)
        }
    }
}

private struct RandomRequest {
    let method: String
    let authority: String
    let path: String
    let query: String
    /// Names in lower case, each once to three times.
    let fields: [(String, String)]

    init(_ generator: inout SeededGenerator) {
        method = ["GET", "POST", "PUT", "DELETE", "PATCH"].randomElement(using: &generator) ?? "GET"
        authority = ["a.example", "A.Example:443", "[::1]:8443"].randomElement(using: &generator) ?? "a"
        path = "/" + Self.text(0...40, except: [" "], &generator)
        query = Self.text(0...40, except: [" "], &generator)
        var fields: [(String, String)] = []
        for name in ["content-digest", "content-type", "x", "y-2"] {
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                fields.append((name, Self.text(0...30, except: [], &generator)))
            }
        }
        self.fields = fields.shuffled(using: &generator)
    }

    var parts: ([UInt8], [UInt8], [UInt8], [UInt8]) {
        (Array(method.utf8), Array(authority.utf8), Array(path.utf8), Array(query.utf8))
    }

    func components(_ generator: inout SeededGenerator) throws -> [Component] {
        var components: [Component] = [.method, .authority, .path, .query]
        for name in Set(fields.map(\.0)).sorted() { components.append(.field(try #require(FieldComponent(name)))) }
        return Array(components.shuffled(using: &generator).dropLast(Int.random(in: 0...8, using: &generator)))
    }

    /// Printable characters of ASCII.
    static func text(
        _ count: ClosedRange<Int>, except: Set<Character>, _ generator: inout SeededGenerator
    ) -> String {
        let characters = (0x20...0x7e).map { Character(Unicode.Scalar($0)) }.filter { !except.contains($0) }
        return String(
            (0..<Int.random(in: count, using: &generator)).map { _ in
                characters.randomElement(using: &generator) ?? "a"
            })
    }
}
