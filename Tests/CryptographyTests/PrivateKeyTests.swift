import Testing

@testable import Cryptography

@Suite("Private keys with a passphrase")
struct EncryptedKeyTests {
    private let context: LibraryContext
    private let tool: OpenSSLTool
    private let passphrase: Passphrase

    init() throws {
        context = try LibraryContext()
        tool = try OpenSSLTool()
        passphrase = try Passphrase(Array("correct horse\n".utf8))
        try tool.run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "plain.pem")
    }

    /// Arguments for every form that the tool writes.
    static let written: [[String]] = [
        ["pkcs8", "-topk8", "-v2", "aes-256-cbc"],
        ["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA512", "-iter", "10000"],
        ["pkcs8", "-topk8", "-scrypt"],
        // Traditional: "Proc-Type: 4,ENCRYPTED".
        ["ec", "-aes256"],
    ]

    private func encrypt(_ form: [String]) throws -> [UInt8] {
        let arguments = form + ["-in", "plain.pem", "-out", "encrypted.pem", "-passout", "pass:correct horse"]
        try tool.run(arguments)
        let pem = try tool.read("encrypted.pem")
        #expect(String(decoding: pem, as: UTF8.self).contains("ENCRYPTED"))
        return pem
    }

    private func message(_ pem: [UInt8], _ passphrase: Passphrase?) -> String {
        do throws(CryptographyError) {
            _ = try PrivateKey(pem: pem, passphrase: passphrase, context)
            return ""
        } catch {
            return error.description
        }
    }

    @Test("an encrypted key is read in every form that the openssl tool writes", arguments: written)
    func forms(_ form: [String]) throws {
        let read = try PrivateKey(pem: encrypt(form), passphrase: passphrase, context)
        let plain = try PrivateKey(pem: tool.read("plain.pem"), context)
        #expect(read.publicKey.uncompressedPoint == plain.publicKey.uncompressedPoint)
    }

    @Test("a wrong or missing passphrase is refused without a prompt", arguments: written)
    func refused(_ form: [String]) throws {
        let pem = try encrypt(form)
        // The newline at the end is not part of the passphrase, but a blank before it would be.
        for wrong in ["correct hors", "correct horse ", "Correct horse"] {
            let said = message(pem, try Passphrase(Array(wrong.utf8)))
            #expect(said.contains("decrypt the private key with this passphrase"))
            #expect(!said.lowercased().contains("horse"))
        }
        #expect(message(pem, nil).contains("it is encrypted, and there is no passphrase for it"))
    }

    @Test(
        "a key whose line ends are lost is recognized, whatever stands in their place", arguments: ["", " ", "\\n"])
    func oneLine(between: String) throws {
        let text = String(decoding: try tool.read("plain.pem"), as: UTF8.self)
        let line = text.split(separator: "\n").joined(separator: between)
        #expect(message(Array(line.utf8), nil).contains("its line ends are lost"))
        #expect(message(Array((line + "\n").utf8), nil).contains("its line ends are lost"))
        // Line ends of other systems, and blanks behind lines, are none.
        #expect(message(Array(text.replacing("\n", with: "\r\n").utf8), nil) == "")
    }

    @Test("an encrypted key without a passphrase says how it is decrypted")
    func decryption() throws {
        #expect(message(try encrypt(Self.written[0]), nil).contains("`openssl pkey -in FILE -out NEW`"))
    }

    @Test("an unencrypted key is refused where a passphrase is configured")
    func plain() throws {
        let pem = try tool.read("plain.pem")
        #expect(message(pem, nil) == "")
        #expect(message(pem, passphrase).contains("it is not encrypted"))
    }

    @Test("the longest passphrase decrypts what it encrypted")
    func longest() throws {
        let text = [UInt8](repeating: 0x61, count: Passphrase.longest)
        try tool.write(text, to: "passphrase")
        try tool.run(
            "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", "plain.pem", "-out", "long.pem", "-passout",
            "file:passphrase")
        #expect(message(try tool.read("long.pem"), try Passphrase(text)) == "")
    }
}

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
        // The first two bytes must not appear as numbers either.
        #expect(!text.contains("104") && !text.contains("117"))
    }
}
