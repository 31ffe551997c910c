import Cryptography
import Foundation
import Testing

@testable import Lifecycle

@Suite("Files of the issuing authority")
struct AuthorityFilesTests {
    private let directory: ScratchDirectory

    init() throws {
        directory = try ScratchDirectory()
    }

    private func write(_ name: String, _ text: String, mode: Int = 0o600) throws -> String {
        let path = directory.file(name)
        try text.write(toFile: path, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    private func refusal(_ files: AuthorityFiles) -> String {
        do throws(StartupError) {
            _ = try files.read()
            return ""
        } catch {
            return error.description
        }
    }

    @Test("key and passphrase must be their owner's alone; their content is not checked")
    func modes() throws {
        let certificate = try write("ca.pem", "x", mode: 0o644)
        for (mode, isGood) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o602, false)] {
            let open = try write("open", "x\n", mode: mode)
            let good = try write("good", "x\n")
            defer { try? FileManager.default.removeItem(atPath: open) }
            for files in [
                AuthorityFiles(certificatePath: certificate, keyPath: open),
                AuthorityFiles(certificatePath: certificate, keyPath: good, passphrase: .file(open)),
            ] {
                #expect(refusal(files).isEmpty == isGood)
                #expect(isGood || refusal(files).contains("\(open): can be read or written by other users"))
            }
        }
    }

    @Test("missing, irregular and far too large files are refused, and faulty passphrases")
    func contents() throws {
        let certificate = try write("ca.pem", "x")
        let large = try write("large", String(repeating: "x", count: (64 << 10) + 1))
        let key = try write("key", "x")
        func refusal(key: String, _ passphrase: AuthorityFiles.PassphrasePlace? = nil) -> String {
            self.refusal(AuthorityFiles(certificatePath: certificate, keyPath: key, passphrase: passphrase))
        }
        #expect(refusal(key: key) == "")
        #expect(refusal(key: large).contains("is larger than 65536 bytes"))
        #expect(refusal(key: directory.path).contains("is not a regular file"))
        #expect(refusal(key: directory.file("none")).contains("No such file"))
        #expect(refusal(key: key, .file(large)).contains("is larger than 65536 bytes"))
        let long = try write("long", String(repeating: "x", count: Passphrase.longest + 1))
        #expect(refusal(key: key, .file(long)).contains("the passphrase is longer than 512 bytes"))
        #expect(refusal(key: key, .file(try write("empty", "\n"))).contains("the passphrase is empty"))
        #expect(refusal(key: key, .file(try write("lines", "a\nb\n"))).contains("is not one line"))
        #expect(refusal(key: key, .variable("ATTESTGATE_NO_SUCH_VARIABLE")).contains("is not set"))
    }
}
