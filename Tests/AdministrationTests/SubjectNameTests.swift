import Cryptography
import Foundation
import Registry
import RegistryMemory
import RegistrySQLite
import Synchronization
import TestVectors
import Testing

@testable import Administration

@Suite("Revoking by person")
struct SubjectNameTests {
    private let directory: SocketDirectory
    private var registryPath: String { TestAdministration.registryPath(in: directory) }

    init() throws {
        directory = try SocketDirectory()
    }

    @Sendable private static func subjects() throws -> SubjectPseudonyms {
        let key = [UInt8](repeating: 9, count: 32)
        return SubjectPseudonyms(try AuthenticationKey(key.span, LibraryContext()))
    }

    private let name = SubjectName(issuer: "https://login.example", subject: "patient-7")

    /// Admits devices for the person of that name.
    private func admit(_ numbers: ClosedRange<UInt8>) throws -> [DeviceID] {
        let store = try RegistryStore(path: registryPath, creating: true)
        let pseudonym = try #require(name).fingerprint(try Self.subjects())
        return try numbers.map { number in
            let id = try Sample.initialize(number, in: store)
            func once(_ kind: UInt8) throws -> SingleUse {
                let bytes = [kind] + [UInt8](repeating: number, count: 31)
                return SingleUse(id: try #require(Fingerprint(bytes)), expiresAt: 2_000)
            }
            let random = [UInt8](repeating: number, count: 16)
            let binding = BindingRequest(
                hardwareKey: try store.show(.id(id)).device.identity.hardwareKey, key: try Sample.key().id,
                nonce: try once(100), epoch: store.identity.epoch, counter: 1, shown: [], mode: .strict,
                admission: .token(try once(101), subject: pseudonym), overlap: 0,
                serial: try #require(.init(random: random)), notAfter: 9_000)
            guard case .bound = try store.bindKey(binding, at: 1_000) else { throw DeviceKeyFault.noKey }
            return id
        }
    }

    @Test("revoking a person has the same result on the file and through the socket")
    func bothWays() throws {
        let name = try #require(name)
        let administration = DeviceAdministration(
            registryPath: registryPath, socketPath: directory.socket, attempts: 2, patience: .seconds(10))
        let first = try admit(1...2)
        var asked = 0
        func revoke() throws -> [DeviceDocument] {
            try administration.revoke(name) { () throws(DeviceAdministrationError) in
                asked += 1
                do { return (try Self.subjects(), nil) } catch { throw .failed("\(error)") }
            }
        }
        let revoked = try revoke()
        #expect(revoked.map(\.device) == first.map(\.number))
        #expect(revoked.allSatisfy { $0.state == "revoked" })
        #expect(asked == 1)
        #expect(try revoke().isEmpty)
        for id in first { _ = try administration.perform(.restore(.number(id))) }
        let written = Mutex("")
        do {
            let served = try TestAdministration(
                in: directory, subjects: Self.subjects, audit: { line in written.withLock { $0 += line } })
            // Only the time differs.
            #expect(try revoke().map(\.device) == revoked.map(\.device))
            #expect(asked == 2)
            withExtendedLifetime(served) {}
        }
        let line = written.withLock { $0 }
        #expect(line.hasPrefix("subject revoke: devices [1 2], by user "))
        #expect(!line.contains("patient") && !line.contains("login"))
    }

    @Test("a malformed change request is written to the audit log without any person's name")
    func auditedWhenMalformed() throws {
        let written = Mutex<[String]>([])
        let served = try TestAdministration(
            in: directory, subjects: Self.subjects, audit: { line in written.withLock { $0.append(line) } })
        func expect(_ refusal: String, _ line: String, _ ask: () throws -> String) throws {
            written.withLock { $0 = [] }
            #expect(try ask() == refusal)
            let lines = written.withLock { $0 }
            #expect(lines.count == 1 && lines.allSatisfy { $0.hasPrefix("\(line), by user ") }, "\(lines)")
        }
        for change in ["approve", "revoke", "restore"] {
            try expect("400 bad_request", "device \(change) refused: bad_request") {
                try served.refusal("POST /devices/bogus/\(change)")
            }
            try expect("400 bad_request", "device \(change) refused: bad_request") {
                try served.refusal("POST /devices/1/\(change)?now=1")
            }
        }
        for (path, act) in [("devices", "device add"), ("subjects/revoke", "subject revoke")] {
            try expect("400 bad_request", "\(act) refused: bad_request") {
                try served.refusal("POST /\(path)", content: #"{"subject":"patient-7"}"#)
            }
            try expect("415 media_type_unsupported", "\(act) refused: media_type_unsupported") {
                try served.refusal("POST /\(path)", fields: "Content-Type: text/plain\r\n", content: "{}")
            }
        }
        let number = "certificates/revocation-list-number"
        try expect("400 bad_request", "revocation list begin refused: bad_request") {
            try served.refusal("POST /\(number)", content: "{}")
        }
        // A read changes nothing.
        written.withLock { $0 = [] }
        #expect(try served.refusal("GET /devices/bogus") == "400 bad_request")
        #expect(written.withLock { $0.isEmpty })
        served.registry.stop()
        try expect("503 store_unavailable", "revocation list begin, whether done or not is unknown: store_unavailable")
        {
            try served.refusal("POST /\(number)")
        }
    }

    @Test("an incomplete, empty or too long name is refused; without the secret the endpoint is missing")
    func refused() throws {
        let served = try TestAdministration(in: directory, subjects: Self.subjects)
        let long = String(repeating: "a", count: 256)
        for content in [
            "{}", #"{"issuer":"a"}"#, #"{"subject":"a"}"#, #"{"issuer":"","subject":"a"}"#,
            #"{"issuer":"a","subject":""}"#, #"{"issuer":"a","subject":"\#(long)"}"#,
            #"{"issuer":"a","subject":"b","device":"c"}"#, #"{"issuer":"a","subject":7}"#,
        ] {
            #expect(try served.refusal("POST /subjects/revoke", content: content) == "400 bad_request")
        }
        #expect(try served.ask("POST /subjects/revoke", content: #"{"issuer":"a","subject":"b"}"#).status == 200)
        let without = try TestAdministration()
        let content = #"{"issuer":"a","subject":"b"}"#
        #expect(try without.refusal("POST /subjects/revoke", content: content) == "404 not_found")
    }
}
