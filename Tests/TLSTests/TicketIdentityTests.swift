import Chance
import Cryptography
import Testing
import Vocabulary

@testable import TLS

@Suite("The identity in a session ticket")
struct TicketIdentityTests {
    private static func identity(
        _ kind: ClientIdentity.Kind, fields: CertificateFields?, name: String?, certificates: Int, serial: Int = 16
    ) -> ClientIdentity {
        let chain = (0..<certificates).compactMap { number in
            AuthorityIdentity(octets: [UInt8](repeating: UInt8(number), count: 64)).map {
                IssuedCertificate(issuer: $0, serialOctets: [UInt8](repeating: 7, count: serial))
            }
        }
        return ClientIdentity(
            kind: kind, keyID: kind == .selfSigned ? KeyID(digest: [UInt8](1...32).span) : nil,
            thumbprint: [UInt8](33...64), notBefore: -1, notAfter: 4_102_444_800, chain: chain, name: name,
            fields: fields)
    }

    private func decoded(_ content: [UInt8]) -> ClientIdentity? {
        content.withUnsafeBufferPointer {
            ClientIdentity(ticketContent: $0, sharing: CertificateEncoder(keeping: .leafAndChain))
        }
    }

    @Test("everything by which a client is judged comes back")
    func roundTrip() throws {
        let fields = CertificateFields(leaf: Array(":abc:".utf8), chain: Array(":def:".utf8))
        for (kind, fields, name, count, serial) in [
            (ClientIdentity.Kind.issued, nil, nil, 4, 20), (.issued, fields, "a.example", 1, 0),
            (.selfSigned, CertificateFields(leaf: [1], chain: []), nil, 0, 0),
        ] {
            let identity = Self.identity(kind, fields: fields, name: name, certificates: count, serial: serial)
            let content = try #require(identity.ticketContent)
            let found = try #require(decoded(content))
            #expect(found.kind == kind && found.keyID == identity.keyID && found.thumbprint == identity.thumbprint)
            #expect(found.notBefore == -1 && found.notAfter == identity.notAfter && found.name == name)
            #expect(found.chain.map(\.issuer) == identity.chain.map(\.issuer))
            #expect(found.chain.map(\.serialOctets) == identity.chain.map(\.serialOctets))
            #expect(found.fields?.leaf == fields?.leaf && found.fields?.chain == fields?.chain)
        }
    }

    @Test("a part of it, more than it, or another version is none")
    func malformed() throws {
        let fields = CertificateFields(leaf: [1, 2], chain: [3])
        let content = try #require(
            Self.identity(.selfSigned, fields: fields, name: "a", certificates: 2).ticketContent)
        for count in content.indices { #expect(decoded(Array(content[..<count])) == nil) }
        #expect(decoded(content + [0]) == nil)
        #expect(decoded([2] + content.dropFirst()) == nil)
    }

    @Test("any bytes are an identity or none")
    func chance() throws {
        var chance = SeededGenerator(seed: RunSeed.tell())
        let content = try #require(Self.identity(.issued, fields: nil, name: "a", certificates: 3).ticketContent)
        for _ in 0..<2_000 {
            var changed = content
            for _ in 0..<3 {
                changed[Int.random(in: changed.indices, using: &chance)] = UInt8.random(in: 0...255, using: &chance)
            }
            if let found = decoded(changed) { #expect(found.thumbprint.count == 32) }
        }
    }

    @Test("one that is too long for a ticket has none")
    func long() {
        let fields = CertificateFields(
            leaf: [UInt8](repeating: 1, count: 5_000), chain: [UInt8](repeating: 1, count: 5_000))
        #expect(Self.identity(.issued, fields: fields, name: nil, certificates: 1).ticketContent == nil)
    }
}
