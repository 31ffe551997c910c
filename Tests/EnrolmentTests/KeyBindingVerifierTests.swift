import Chance
import Cryptography
import Enrolment
import Testing

@Suite("Key binding tokens")
struct KeyBindingVerifierTests {
    private let keys: Keys

    init() throws { keys = try Keys() }

    @Test("a token with the required members is verified and read")
    func valid() throws {
        let draft = try KeyBindingDraft(keys)
        let binding = try draft.verify().get()
        #expect(binding.nonce.text == Array(KeyBindingDraft.nonce.utf8))
        #expect(binding.nonce.bytes == Array(16..<48))
        #expect(binding.point == draft.newKey.point)
        #expect(try binding.keyID == keys.keyID(draft.newKey.point))
        #expect(try binding.hardwareKeyID == keys.keyID(draft.hardwareKey.point))
        #expect(binding.thumbprint == draft.thumbprint)
        #expect(binding.admission == nil)
    }

    @Test("every other token is refused by the check intended for it", arguments: KeyBindingAlteration.all)
    func refused(_ alteration: KeyBindingAlteration) throws {
        var draft = try KeyBindingDraft(keys)
        try alteration.alter(&draft)
        #expect(try draft.verify() == .failure(alteration.fault))
    }

    @Test("times are accepted up to their bounds")
    func times() throws {
        var draft = try KeyBindingDraft(keys)
        for offset: Int64 in [-60, 0, 60] {
            let issued = KeyBindingDraft.now + offset
            draft.claims["iat"] = "\(issued)"
            draft.claims["exp"] = "\(issued + 300)"
            #expect(try draft.verify().failure == nil)
        }
        draft.claims["iat"] = "\(KeyBindingDraft.now)"
        draft.claims["exp"] = "\(KeyBindingDraft.now + 1)"
        #expect(try draft.verify().failure == nil)
        #expect(try draft.verify(now: KeyBindingDraft.now + 1) == .failure(.tokenExpiry))
    }

    @Test("look-alikes are not equal: an aud with a Kelvin sign names another service")
    func lookAlikes() throws {
        var draft = try KeyBindingDraft(keys)
        let provider = try #require(ProviderURL("https://enrol.example.org/K"))
        let verifier = KeyBindingVerifier(provider: provider, keys.library)
        draft.claims["iss"] = quoted("\(provider.text)/instance/\(draft.thumbprint)")
        draft.claims["aud"] = quoted(provider.text)
        #expect(KeyBindingDraft.verify(try draft.content(), verifier).failure == nil)
        draft.claims["aud"] = quoted("https://enrol.example.org/\u{212a}")
        #expect("\u{212a}" == "K", "strings of Swift are equal when they look alike")
        #expect(KeyBindingDraft.verify(try draft.content(), verifier) == .failure(.tokenAudience))
    }

    @Test("anything but JSON and a JWT is malformed")
    func malformed() throws {
        let verifier = try KeyBindingDraft(keys).verifier()
        func fault(_ content: String) -> EnrolmentFault? {
            KeyBindingDraft.verify(Array(content.utf8), verifier).failure
        }
        #expect(fault("") == .contentMalformed(.malformed))
        #expect(fault("[]") == .contentMalformed(.notAnObject))
        #expect(fault("{}") == .memberMissing(.assertion))
        #expect(fault(#"{"assertion":1}"#) == .valueFormat(.assertion))
        for token in [
            "", "a", "a.b", "..", "e30.e30", "e30.e30.e30.", "e30=.e30.AA", "e30.e30.A", "e30.W10.AA", "e30.e30 .AA",
        ] {
            #expect(fault(#"{"assertion":"\#(token)"}"#) == .tokenMalformed, "\(token)")
        }
        let long = String(repeating: "A", count: RequestContent.lengthLimit)
        #expect(fault(#"{"assertion":"\#(long)"}"#) == .contentMalformed(.tooLong))
    }

    @Test("a token with any character replaced is refused")
    func mutatedCharacters() throws {
        let draft = try KeyBindingDraft(keys)
        let content = try draft.content()
        let verifier = try draft.verifier()
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for index in content.indices {
            var other = content
            other[index] = UInt8.random(in: 0...255, using: &generator)
            guard other != content else { continue }
            #expect(KeyBindingDraft.verify(other, verifier).failure != nil, "byte \(index), seed \(seed)")
        }
    }

    @Test("a token with bytes removed, repeated or swapped is refused")
    func mutatedParts() throws {
        let draft = try KeyBindingDraft(keys)
        let content = try draft.content()
        let verifier = try draft.verifier()
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for round in 0..<2_000 {
            var other = content
            let bounds = [0, 0].map { _ in Int.random(in: 0...content.count, using: &generator) }.sorted()
            let part = other[bounds[0]..<bounds[1]]
            switch round % 3 {
            case 0: other.removeSubrange(bounds[0]..<bounds[1])
            case 1: other.insert(contentsOf: part, at: bounds[1])
            default: other.replaceSubrange(bounds[0]..<bounds[1], with: part.reversed())
            }
            guard other != content else { continue }
            #expect(KeyBindingDraft.verify(other, verifier).failure != nil, "round \(round), seed \(seed)")
        }
    }
}
