import COpenSSL
import Cryptography
import Testing

@testable import TLS

@Suite("Keys of session tickets")
struct TicketKeysTests {
    private let library: LibraryContext

    init() throws { library = try LibraryContext() }

    /// A process with its clock.
    private final class Gateway {
        let sessions: SessionTable
        var now: Int64 = 1_800_000_000
        private(set) var keys: TicketKeys!

        init(purpose: String = "listener", _ secrets: [[UInt8]], _ library: LibraryContext) throws {
            sessions = SessionTable(limit: 16, purpose: purpose)
            if !secrets.isEmpty { sessions.share(secrets) }
            keys = try TicketKeys(sessions, library) { [unowned self] in now }
        }

        /// The name of the key that encrypts.
        func ticketName() throws -> [UInt8] {
            let contexts = try Contexts()
            var (name, start) = ([UInt8](repeating: 0, count: 16), [UInt8](repeating: 0, count: 16))
            #expect(keys.encrypt(&name, &start, contexts.cipher, contexts.code))
            return name
        }

        func reads(_ name: [UInt8]) throws -> Bool {
            let contexts = try Contexts()
            let start = [UInt8](repeating: 1, count: 16)
            return keys.decrypt(name, start, contexts.cipher, contexts.code) == true
        }
    }

    /// What OpenSSL passes to the callback.
    private final class Contexts {
        let cipher: OpaquePointer
        let code: OpaquePointer
        private let algorithm: OpaquePointer

        init() throws {
            cipher = try #require(EVP_CIPHER_CTX_new())
            algorithm = try #require(EVP_MAC_fetch(nil, "HMAC", nil))
            code = try #require(EVP_MAC_CTX_new(algorithm))
        }

        deinit {
            EVP_MAC_CTX_free(code)
            EVP_MAC_free(algorithm)
            EVP_CIPHER_CTX_free(cipher)
        }
    }

    private static func secret(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 32) }

    @Test("the same secret gives the same keys, another secret or another kind of listener does not")
    func sharing() throws {
        let first = try Gateway([Self.secret(1)], library)
        let name = try first.ticketName()
        #expect(try Gateway([Self.secret(1)], library).reads(name))
        #expect(try Gateway([Self.secret(2), Self.secret(1)], library).reads(name))
        #expect(try !Gateway([Self.secret(2)], library).reads(name))
        #expect(try !Gateway(purpose: "devices", [Self.secret(1)], library).reads(name))
        #expect(try !Gateway([], library).reads(name), "a process without secrets has its own")
    }

    @Test("a ticket is read in its hour, in the next, and in the one before")
    func hours() throws {
        let (writer, reader) = (try Gateway([Self.secret(1)], library), try Gateway([Self.secret(1)], library))
        let name = try writer.ticketName()
        for (offset, isRead) in [(-2, false), (-1, true), (0, true), (1, true), (2, false)] {
            reader.now = writer.now + Int64(offset) * 3600
            #expect(try reader.reads(name) == isRead, "\(offset) hours later")
        }
        writer.now += 3600
        #expect(try writer.ticketName() != name)
    }

    @Test("a change of the secrets holds from the next handshake on")
    func change() throws {
        let gateway = try Gateway([Self.secret(1)], library)
        let name = try gateway.ticketName()
        gateway.sessions.share([Self.secret(2), Self.secret(1)])
        #expect(try gateway.reads(name))
        #expect(try gateway.ticketName() != name)
        gateway.sessions.share([Self.secret(2)])
        #expect(try !gateway.reads(name))
    }

    @Test("a process that shares no secret any more has its own, the same as before")
    func ownSecret() throws {
        let gateway = try Gateway([], library)
        let own = try gateway.ticketName()
        gateway.sessions.share([Self.secret(1)])
        let shared = try gateway.ticketName()
        #expect(try shared != own && !gateway.reads(own))
        gateway.sessions.share(nil)
        #expect(try !gateway.reads(shared) && gateway.reads(own) && gateway.ticketName() == own)
    }
}
