import Testing

@testable import Cryptography

@Suite("Passphrases")
struct PassphraseTests {
    @Test("only the line end is removed from a passphrase")
    func lines() throws {
        for text in ["secret", "secret\n", "secret\r\n"] {
            #expect(try Passphrase(Array(text.utf8)).bytes == Array("secret".utf8))
        }
        #expect(try Passphrase(Array(" a b \t\n".utf8)).bytes == Array(" a b \t".utf8))
        #expect(try Passphrase([0xFF, 0x80]).bytes == [0xFF, 0x80])
    }

    @Test("an empty, multi-line or too long passphrase is refused")
    func refused() {
        for text in ["", "\n", "\r\n"] { #expect(throws: PassphraseFault.empty) { try Passphrase(Array(text.utf8)) } }
        for text in ["a\nb", "a\n\n", "\na", "a\0"] {
            #expect(throws: PassphraseFault.severalLines) { try Passphrase(Array(text.utf8)) }
        }
        let longest = [UInt8](repeating: 0x61, count: Passphrase.longest)
        #expect(throws: Never.self) { try Passphrase(longest + [0x0A]) }
        #expect(throws: PassphraseFault.tooLong) { try Passphrase(longest + [0x61]) }
    }

    @Test("a passphrase does not show in any textual description")
    func silence() throws {
        let passphrase = try Passphrase(Array("hunter2".utf8))
        let source = AuthoritySource(certificate: [], key: Array("hunter2".utf8), passphrase: passphrase)
        var text = "\(passphrase) \(source) \(String(reflecting: passphrase)) \(String(reflecting: source))"
        dump([passphrase], to: &text)
        dump([source], to: &text)
        dump(Optional(source), to: &text)
        #expect(!text.contains("hunter2"))
        // Nor as bytes: the first two of them.
        #expect(!text.contains("104") && !text.contains("117"))
    }
}
