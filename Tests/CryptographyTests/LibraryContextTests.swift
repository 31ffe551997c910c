import Cryptography
import Foundation
import Testing
import TestVectors

@Suite("Digests")
struct LibraryContextTests {
    private let context: LibraryContext

    init() throws { context = try LibraryContext() }

    /// Examples of FIPS 180-4 ("SHA Examples", NIST), and the empty message.
    static let examples: [(message: String, sha256: String, sha512: String)] = [
        (
            "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            """
            cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce
            47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e
            """
        ),
        (
            "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            """
            ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a
            2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f
            """
        ),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            """
            204a8fc6dda82f0a0ced7beb8e08a41657c16ef468b228a8279be331a703c335
            96fd15c13b1b07f9aa1d3bea57789ca031ad85c7a71dd70354ec631238ca3445
            """
        ),
        (
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
            """
            8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018
            501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909
            """
        ),
        (
            String(repeating: "a", count: 1_000_000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
            """
            e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb
            de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b
            """
        ),
    ]

    @Test("SHA-256 and SHA-512 give NIST's values", arguments: examples.indices)
    func known(_ index: Int) throws {
        let example = Self.examples[index]
        let message = Array(example.message.utf8)
        #expect(try context.sha256(of: message.span).bytes == hex(example.sha256))
        #expect(try context.sha512(of: message.span).bytes == hex(example.sha512))
    }

    @Test("a message in two parts has the digest of the whole, wherever it is split")
    func parts() throws {
        let message = (0..<200).map { UInt8($0) }
        let whole = try context.sha256(of: message.span)
        for cut in 0...message.count {
            let first = Array(message[..<cut])
            let second = Array(message[cut...])
            #expect(try context.sha256(of: first.span, second.span) == whole)
        }
    }

    @Test("a message in many parts has the digest of the whole", arguments: [1, 7, 64, 1_000])
    func running(_ step: Int) throws {
        let message = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        var short = try RunningDigest.sha256(context)
        var long = try RunningDigest.sha512(context)
        for start in stride(from: 0, to: message.count, by: step * 1_000) {
            let part = message.span.extracting(start..<min(start + step * 1_000, message.count))
            try short.update(part)
            try long.update(part)
        }
        #expect(try short.finish() == context.sha256(of: message.span))
        #expect(try long.finish() == context.sha512(of: message.span))
    }

    @Test("random bytes differ")
    func random() throws {
        #expect(try context.randomBytes(16) != context.randomBytes(16))
        #expect(try context.randomBytes(0).isEmpty)
    }
}

/// The `openssl` command in a temporary directory, as an independent implementation.
final class OpenSSLTool {
    let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "openssl-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: directory)
    }

    struct Failure: Error {
        let text: String
    }

    /// Runs the command in the directory.
    ///
    /// - Returns: what it prints, including errors.
    @discardableResult
    func run(_ arguments: String...) throws -> String { try run(arguments) }

    @discardableResult
    func run(_ arguments: [String]) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.currentDirectoryURL = directory
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(text: text) }
        return text
    }

    func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: directory.appending(path: name))) }

    func write(_ bytes: [UInt8], to name: String) throws {
        try Data(bytes).write(to: directory.appending(path: name))
    }
}
