import Cryptography
import Testing
import Vocabulary

@testable import Gateway

@Suite("The secrets file")
struct GatewaySecretsTests {
    private static let one = String(repeating: "0a", count: 32)
    private static let two = String(repeating: "0b", count: 32)

    @Test("one or two challenge secrets are read, with comments and white space")
    func read() throws {
        let single = try GatewaySecrets(parsing: "challenge 1 \(Self.one)\npseudonyms \(Self.two)\n")
        #expect(single.current.generation == 1 && single.previous == nil)
        let both = try GatewaySecrets(
            parsing: "# new\n\n challenge 2 \(Self.two)\r\nchallenge\t1 \(Self.one)\n pseudonyms \(Self.two)")
        #expect(both.current.generation == 2 && both.previous?.generation == 1)
    }

    @Test(
        "every other file is refused with its line",
        arguments: [
            ("", nil), ("challenge 1 \(one)", nil), ("pseudonyms \(one)", nil),
            ("challenge 1 \(one)\nchallenge 1 \(two)\npseudonyms \(one)", nil),
            ("challenge 3 \(one)\nchallenge 2 \(one)\nchallenge 1 \(one)\npseudonyms \(one)", nil),
            ("pseudonyms \(one)\nchallenge 256 \(one)", 2), ("pseudonyms \(one)\nchallenge 1 \(one)0a", 2),
            ("challenge 1 \(one.uppercased())\npseudonyms \(one)", 1), ("challenge 1\npseudonyms \(one)", 1),
            ("pseudonyms \(one)\npseudonyms \(one)\nchallenge 1 \(one)", 2), ("secret \(one)", 1),
        ] as [(String, Int?)])
    func refused(_ text: String, _ line: Int?) {
        #expect(throws: GatewaySecrets.Malformed(line: line)) { try GatewaySecrets(parsing: text) }
    }

    @Test("pseudonyms of people depend on the pseudonym secret and not on the challenge secret")
    func subjects() throws {
        let library = try LibraryContext()
        func name(_ secrets: GatewaySecrets) throws -> Digest256 {
            try secrets.subjects(library).pseudonym(ofSubject: Array("patient".utf8), issuer: "https://login.example")
        }
        let secrets = try GatewaySecrets(parsing: "challenge 1 \(Self.one)\npseudonyms \(Self.two)")
        let renewed = try GatewaySecrets(parsing: "challenge 2 \(Self.two)\npseudonyms \(Self.two)")
        let other = try GatewaySecrets(parsing: "challenge 1 \(Self.one)\npseudonyms \(Self.one)")
        #expect(try name(secrets) == name(renewed))
        #expect(try name(secrets) != name(other))
        let message = Array("21:https://login.examplepatient".utf8)
        let logKey = try secrets.logSecret(library)
        #expect(try AuthenticationKey(logKey.span, library).code(of: message.span) != name(secrets))
        #expect(try secrets.pseudonymKey(ofUpstream: "a", library).code(of: message.span) != name(secrets))
    }

    @Test("each upstream has its own pseudonym of a device, which survives a new challenge secret")
    func pseudonyms() throws {
        let library = try LibraryContext()
        let device = [UInt8](repeating: 7, count: 32)
        func name(_ text: String, _ upstream: String) throws -> [UInt8] {
            let key = try GatewaySecrets(parsing: text).pseudonymKey(ofUpstream: upstream, library)
            return try key.code(of: device.span).bytes
        }
        let before = "challenge 1 \(Self.one)\npseudonyms \(Self.two)"
        let after = "challenge 2 \(Self.two)\nchallenge 1 \(Self.one)\npseudonyms \(Self.two)"
        #expect(try name(before, "a") != name(before, "b"))
        #expect(try name(before, "a") == name(after, "a"))
    }

    @Test("logs name devices with a key of their own, which does not change")
    func logNames() throws {
        let library = try LibraryContext()
        let octets = [UInt8](repeating: 7, count: 32)
        let keyID = KeyID(digest: octets.span)
        let device = try #require(keyID)
        func names(_ text: String) throws -> [UInt64] {
            let secrets = try GatewaySecrets(parsing: text)
            let services = DeviceLogNames(try secrets.pseudonymKey(ofUpstream: "log-device", library))
            return [try secrets.logNames(library).name(of: device), try services.name(of: device)]
        }
        let before = try names("challenge 1 \(Self.one)\npseudonyms \(Self.two)")
        let after = try names("challenge 2 \(Self.two)\npseudonyms \(Self.two)")
        #expect(before[0] != before[1])
        #expect(before == after)
    }
}
