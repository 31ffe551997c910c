import Cryptography
import Foundation
import Registry
import Synchronization
import TestVectors
import Testing

@testable import Administration

@Suite("Revoking people")
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
            let binding = KeyBinding(
                hardwareKey: try store.show(.id(id)).device.identity.hardwareKey, key: try Sample.key().id,
                nonce: try once(100), epoch: store.identity.epoch, counter: 1, shown: [], mode: .strict,
                admission: .token(try once(101), subject: pseudonym), overlap: 0,
                serial: try #require(.init(random: random)), notAfter: 9_000)
            guard case .bound = try store.bindKey(binding, at: 1_000) else { throw DeviceKeyFault.noKey }
            return id
        }
    }

    @Test("does the same on the file and through the socket, where the gateway alone has the secret")
    func bothWays() throws {
        let name = try #require(name)
        let administration = DeviceAdministration(
            registryPath: registryPath, socketPath: directory.socket, attempts: 2, patience: .seconds(10))
        let first = try admit(1...2)
        var asked = 0
        func revoke() throws -> [DeviceDocument] {
            try administration.revoke(name) { () throws(DeviceAdministrationError) in
                asked += 1
                do { return try Self.subjects() } catch { throw .failed("\(error)") }
            }
        }
        let revoked = try revoke()
        #expect(revoked.map(\.device) == first.map(\.number))
        #expect(revoked.allSatisfy { $0.state == "revoked" })
        #expect(asked == 1)
        #expect(try revoke().isEmpty)
        for id in first { _ = try administration.perform(.restore(.number(id))) }
        let told = Mutex("")
        do {
            let served = try TestAdministration(
                in: directory, subjects: Self.subjects, audit: { line in told.withLock { $0 += line } })
            // But for the time of it.
            #expect(try revoke().map(\.device) == revoked.map(\.device))
            #expect(asked == 2)
            withExtendedLifetime(served) {}
        }
        let line = told.withLock { $0 }
        #expect(line.hasPrefix("subject revoke: devices [1 2], by user "))
        #expect(!line.contains("patient") && !line.contains("login"))
    }

    @Test("a name that is incomplete, empty or too long is refused, and an endpoint without the secret is none")
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
