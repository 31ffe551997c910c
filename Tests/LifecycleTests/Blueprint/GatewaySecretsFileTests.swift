import Foundation
import Testing

@testable import Gateway
@testable import Lifecycle

@Suite("The secrets file on disk")
struct GatewaySecretsFileTests {
    private let directory: ScratchDirectory

    init() throws {
        directory = try ScratchDirectory()
    }

    @Test("a missing file is created, readable by its owner alone, and never changed")
    func made() throws {
        let path = directory.file("secret")
        let first = try GatewaySecrets.load(path)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(first.current.generation == 1)
        _ = try GatewaySecrets.load(path)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["secret"])
    }

    @Test(
        "a file that others may read is refused, and so is anything but a regular file",
        arguments: [0o640, 0o604, 0o620, 0o666])
    func readable(mode: Int) throws {
        let path = directory.file("secret")
        _ = try GatewaySecrets.load(path)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        #expect(throws: StartupError.self) { try GatewaySecrets.load(path) }
        #expect(throws: StartupError.self) { try GatewaySecrets.load(directory.path) }
    }

    @Test("a third challenge secret, or a number that stands twice, is refused with the lines that must be there")
    func wrongLines() throws {
        let path = directory.file("secret")
        _ = try GatewaySecrets.load(path)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let key = String(repeating: "5c", count: 32)
        for lines in ["challenge 1 \(key)\n", "challenge 3 \(key)\nchallenge 2 \(key)\n"] {
            try (lines + text).write(toFile: path, atomically: false, encoding: .utf8)
            let error = try #require(throws: StartupError.self) { try GatewaySecrets.load(path) }
            #expect(
                "\(error)".contains(
                    "it must have one or two lines `challenge`, with different numbers, and one line `pseudonyms`"))
        }
    }
}
