import Chance
import Cryptography
import Encoding
import Foundation
import RegistryMemory
import TestVectors
import Testing
import Vocabulary

@testable import Administration
@testable import Registry
@testable import RegistrySQLite

@Suite("Backups through the administration")
struct ExportReaderTests {
    private let directory: SocketDirectory
    private var registryPath: String { TestAdministration.registryPath(in: directory) }
    private var administration: DeviceAdministration {
        DeviceAdministration(
            registryPath: registryPath, socketPath: directory.socket, attempts: 2, patience: .seconds(10))
    }

    init() throws {
        directory = try SocketDirectory()
    }

    private func export() throws -> [UInt8] {
        var bytes: [UInt8] = []
        _ = try administration.export(write: { bytes += $0 }, progress: { _ in })
        return bytes
    }

    private func body(_ file: [UInt8]) -> [ArraySlice<UInt8>] {
        Array(file.split(separator: UInt8(ascii: "\n")).dropFirst().dropLast())
    }

    /// Returns a file in pieces of a size.
    private func pieces(_ file: [UInt8], of size: Int) -> () -> [UInt8]? {
        var rest = file[...]
        return {
            defer { rest = rest.dropFirst(size) }
            return rest.isEmpty ? nil : Array(rest.prefix(size))
        }
    }

    private func populate() throws {
        let store = try RegistryStore(path: registryPath, creating: true)
        // More than one page.
        for _ in 0..<300 { _ = try store.perform(Sample.registration().command).get() }
        _ = try store.perform(.revokeSubject(#require(Fingerprint([UInt8](repeating: 3, count: 32))))).get()
    }

    @Test("an export is the same from file and socket, and ends with its digest")
    func bothWays() throws {
        try populate()
        let file = try export()
        let served = try TestAdministration(in: directory)
        let online = try export()
        withExtendedLifetime(served) {}
        #expect(body(online) == body(file))
        #expect(body(file).count == 301)
        for bytes in [file, online] {
            let reader = try ExportReader(LibraryContext())
            for line in bytes.split(separator: UInt8(ascii: "\n")) { _ = try reader.append(line) }
            try reader.finish()
            #expect(reader.counts.devices == 300)
            #expect(reader.counts.revokedSubjects == 1)
        }
    }

    @Test(
        "an import accepts the file in pieces of any size, but not into a registry with devices",
        arguments: [1, 7, 4_096])
    func pieces(_ size: Int) throws {
        try populate()
        let file = try export()
        let other = try SocketDirectory()
        let target = DeviceAdministration(
            registryPath: TestAdministration.registryPath(in: other), socketPath: nil, attempts: 2,
            patience: .seconds(10))
        var lines = 0
        let report = try target.importExport(next: pieces(file, of: size)) { lines = $0 }
        #expect(report.counts.devices == 300)
        #expect(lines == 303)
        var again: [UInt8] = []
        _ = try target.export(write: { again += $0 }, progress: { _ in })
        #expect(body(again) == body(file))
        #expect(throws: RegistryImportError.notEmpty) {
            try target.importExport(next: pieces(file, of: 4_096)) { _ in }
        }
    }

    @Test("a file with any byte changed is refused, and nothing is imported")
    func altered() throws {
        do {
            let store = try RegistryStore(path: registryPath, creating: true)
            _ = try store.perform(Sample.registration().command).get()
        }
        let file = try export()
        let other = try SocketDirectory()
        let target = DeviceAdministration(
            registryPath: TestAdministration.registryPath(in: other), socketPath: nil, attempts: 2,
            patience: .seconds(10))
        let seed = RunSeed.tell()
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<40 {
            let place = Int.random(in: 0..<file.count - 1, using: &generator)
            var bad = file
            bad[place] ^= 1 << Int.random(in: 0..<8, using: &generator)
            #expect(throws: RegistryImportError.self, "seed \(seed), octet \(place)") {
                try target.importExport(next: pieces(bad, of: 4_096)) { _ in }
            }
        }
        for length in [0, 1, 100, file.count / 2, file.count - 2] {
            #expect(throws: RegistryImportError.self, "cut to \(length)") {
                try target.importExport(next: pieces(Array(file.prefix(length)), of: 4_096)) { _ in }
            }
        }
        // A missing last line feed is permitted.
        _ = try target.importExport(next: pieces(Array(file.dropLast()), of: 4_096)) { _ in }
    }

    @Test("a file that cannot be read to its end imports nothing")
    func failing() throws {
        try populate()
        var file = pieces(try export(), of: 1_000)
        struct Gone: Error {}
        let other = try SocketDirectory()
        let target = DeviceAdministration(
            registryPath: TestAdministration.registryPath(in: other), socketPath: nil, attempts: 2,
            patience: .seconds(10))
        var count = 0
        #expect(throws: Gone.self) {
            try target.importExport(next: {
                count += 1
                if count == 5 { throw Gone() }
                return file()
            }) { _ in }
        }
        file = pieces(try export(), of: 1_000)
        _ = try target.importExport(next: { file() }) { _ in }
    }

    @Test("an export that cannot be written ends, and a missing registry is an error")
    func unwritable() throws {
        #expect(
            throws: DeviceAdministrationError.store(
                "\(registryPath): no such file: a gateway creates it at its first start")
        ) { try export() }
        try populate()
        struct Full: Error {}
        #expect(throws: Full.self) {
            _ = try administration.export(write: { _ in throw Full() }, progress: { _ in })
        }
    }

    @Test("the export endpoint returns lines and the next position, and refuses invalid positions")
    func endpoint() throws {
        try populate()
        let recorded = RecordedLines()
        let served = try TestAdministration(in: directory, audit: { recorded.add($0) })
        let store = Hexadecimal.encode(served.registry.identity.store.bytes)
        var pages: [[Substring]] = []
        var query = ""
        while pages.count < 400 {
            let answer = try served.ask("GET /registry/export" + query)
            #expect(answer.status == 200)
            pages.append(answer.content.split(separator: "\n"))
            let end = try #require(pages.last?.last)
            guard let next = end.wholeMatch(of: /\{"next":"([a-z]+-[0-9a-f]*)","store":"[0-9a-f]{32}"\}/)?.1 else {
                #expect(end == #"{"next":null,"store":"\#(store)"}"#)
                break
            }
            query = "?from=\(next)"
        }
        #expect(pages.first?.first?.hasPrefix(#"{"format":"attestgate-registry","version":1,"#) == true)
        // A page has a limited number of rows, with the head and the end.
        #expect(pages.allSatisfy { $0.count <= 258 })
        let devices = pages.joined().filter { $0.hasPrefix(#"{"device":"#) }
        #expect(devices.count == 300)
        #expect(Set(devices).count == 300)
        #expect(
            try served.ask("GET /registry/export?from=federation-").content == #"{"next":null,"store":"\#(store)"}"#
                + "\n")
        for query in ["from=", "from=devices", "from=devices-1", "from=things-", "after=devices-"] {
            #expect(try served.refusal("GET /registry/export?\(query)") == "400 bad_request")
        }
        #expect(try served.refusal("POST /registry/export") == "405 method_refused")
        // The audit log has a line at the beginning and at the end of an export, not for each page. A page at a
        // position that no earlier page gave counts as an export.
        let sentences = recorded.lines.map { $0.prefix { $0 != "," } }
        #expect(
            sentences == [
                "registry export begun", "registry export done", "registry export begun", "registry export done",
            ])
        #expect(recorded.lines.allSatisfy { $0.contains(", by user ") })
    }
}

/// The lines of the audit log.
private final class RecordedLines: @unchecked Sendable {
    private let lock = NSLock()
    private var kept: [String] = []

    func add(_ line: String) { lock.withLock { kept.append(line) } }
    var lines: [String] { lock.withLock { kept } }
}
