import Foundation
import TestVectors
import Testing
import RegistryMemory
import Vocabulary

@testable import Administration
@testable import Registry
@testable import RegistrySQLite

@Suite("The certificates for revocation lists")
struct CertificateEndpointTests {
    private let directory: SocketDirectory
    private var registryPath: String { TestAdministration.registryPath(in: directory) }
    private static let now = Int64(Date().timeIntervalSince1970)

    init() throws {
        directory = try SocketDirectory()
    }

    private func serial(_ number: Int) throws -> CertificateSerial {
        try #require(CertificateSerial([1, UInt8(number >> 8), UInt8(number & 255)]))
    }

    /// Enrols a device whose key has certificates with these serial numbers.
    private func enrol(_ number: UInt8, serials: Range<Int>, in store: RegistryStore) throws -> DeviceID {
        let id = try Sample.initialize(number, in: store)
        let hardwareKey = try store.show(.id(id)).device.identity.hardwareKey
        let key = try Sample.key().id
        for (count, serial) in serials.enumerated() {
            var bytes = [UInt8](repeating: number, count: 32)
            (bytes[0], bytes[1], bytes[2]) = (1, UInt8(count >> 8), UInt8(count & 255))
            let nonce = SingleUse(id: try #require(Fingerprint(bytes)), expiresAt: 2_000)
            let binding = BindingRequest(
                hardwareKey: hardwareKey, key: key, nonce: nonce, epoch: store.identity.epoch,
                counter: UInt32(count + 1), shown: [], mode: .strict, admission: .open, overlap: 0,
                serial: try self.serial(serial), notAfter: Self.now + 3_600)
            guard case .bound = try store.bindKey(binding, at: 1_000) else { throw DeviceKeyFault.noKey }
        }
        return id
    }

    @Test("the certificates are the same from file and socket, over several pages, with growing numbers")
    func bothWays() throws {
        let administration = DeviceAdministration(
            registryPath: registryPath, socketPath: directory.socket, attempts: 2, patience: .seconds(10))
        #expect(
            throws: DeviceAdministrationError.store(
                "\(registryPath): no such file: a gateway creates it at its first start")
        ) {
            _ = try administration.revocations()
        }
        let revoked = try {
            // There is much to write, and nothing needs to survive a power failure.
            var options = StoreOptions()
            options.durability = .off
            let store = try RegistryStore(path: registryPath, creating: true, options: options)
            // More than two pages are examined. Those on the list are before, between and after the others.
            let ids = try [(1, 0..<3), (2, 3..<1_100), (3, 1_100..<1_102), (4, 1_102..<2_300), (5, 2_300..<2_301)].map {
                try enrol(UInt8($0.0), serials: $0.1, in: store)
            }
            for id in [ids[0], ids[2], ids[4]] { _ = try store.revoke(id, at: Self.now - 10) }
            return try [0, 1, 2, 1_100, 1_101, 2_300].map {
                RevokedCertificate(serial: try serial($0), revokedAt: Self.now - 10, reason: .certificateHold)
            }
        }()
        let first = try administration.revocations()
        #expect(first.certificates == revoked)
        #expect(first.number >= Self.now)
        do {
            let served = try TestAdministration(in: directory)
            let second = try administration.revocations()
            #expect(second.certificates == revoked)
            #expect(second.number > first.number)
            withExtendedLifetime(served) {}
        }
        #expect(try administration.revocations().number > first.number + 1)
    }

    @Test("a page names the start of the next, and gives times and reasons as text")
    func page() throws {
        do {
            let store = try RegistryStore(path: registryPath, creating: true)
            _ = try store.revoke(enrol(1, serials: 7..<8, in: store), at: 1_700_000_000)
        }
        let served = try TestAdministration(in: directory)
        let answer = try served.ask("GET /certificates/revoked")
        #expect(answer.status == 200)
        #expect(
            answer.content == """
                {"certificates":[{"reason":"certificateHold","revoked_at":"2023-11-14T22:13:20Z","serial":"010007"}],\
                "next":null}

                """)
        #expect(try served.ask("GET /certificates/revoked?after=010007").content.contains("[]"))
        for query in ["after=", "after=7", "after=01000g", "after=01ab", "next=01"] {
            #expect(try served.refusal("GET /certificates/revoked?\(query)") == "400 bad_request")
        }
        #expect(try served.refusal("GET /certificates/revocation-list-number") == "405 method_refused")
    }

    @Test("an answer that no gateway writes is not taken for an empty list")
    func malformed() throws {
        func read(_ text: String) throws -> Bool {
            try JSONText.decode(RevokedCertificatesDocument.self, from: Array(text.utf8)).read() != nil
        }
        let entry = #"{"serial":"01","revoked_at":"2023-11-14T22:13:20Z","reason":"superseded"}"#
        #expect(try read(#"{"certificates":[\#(entry)],"next":"02"}"#))
        #expect(try !read(#"{"certificates":[\#(entry)],"next":"2"}"#))
        for (good, bad) in [("01", "1"), ("superseded", "unknown"), ("22:13:20Z", "evening")] {
            #expect(try !read(#"{"certificates":[\#(entry.replacing(good, with: bad))],"next":null}"#))
        }
    }
}
