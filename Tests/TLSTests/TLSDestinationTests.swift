import Cryptography
import Testing

@testable import TLS

@Suite("TLS connections to a destination")
struct TLSDestinationTests {
    private let peers: Peers

    init() throws {
        peers = try Peers()
    }

    @Test("a ticket is offered once, and each connection brings the next")
    func singleUse() throws {
        let destination = TLSDestination(try peers.context(), name: "localhost")
        for number in 0..<3 {
            let stream = try peers.connect(to: destination)
            #expect(destination.sessionCount == 0, "the one that was offered is gone, whatever comes of it")
            try stream.handshake()
            #expect(stream.client.isResumed == (number > 0))
            #expect(destination.sessionCount == 1)
        }
    }

    @Test("a session is not offered under another name or to another server")
    func names() throws {
        let context = try peers.context()
        let first = TLSDestination(context, name: "localhost")
        try peers.connect(to: first).handshake()
        #expect(first.sessionCount == 1)
        for name in ["127.0.0.1", "localhost"] {
            let stream = try peers.connect(to: TLSDestination(context, name: name))
            try stream.handshake()
            #expect(!stream.client.isResumed)
        }
        #expect(first.sessionCount == 1)
    }

    @Test("the number of kept sessions is limited")
    func bound() throws {
        let destination = TLSDestination(try peers.context(), name: "localhost")
        let streams = try (0..<20).map { _ in try peers.connect(to: destination) }
        for stream in streams { try stream.handshake() }
        #expect(destination.sessionCount == 8)
    }

    @Test("no session is kept when resumption is off")
    func fresh() throws {
        let destination = TLSDestination(try peers.context(), name: "localhost", resumes: false)
        for _ in 0..<2 {
            let stream = try peers.connect(to: destination)
            try stream.handshake()
            #expect(!stream.client.isResumed && destination.sessionCount == 0)
        }
    }

    @Test("a TLS 1.2 session is offered again, since it identifies nobody")
    func olderVersion() throws {
        let destination = TLSDestination(try peers.context(.intermediate), name: "localhost")
        let older = try Peers(only12: true, of: peers)
        for number in 0..<3 {
            let stream = try older.connect(to: destination)
            try stream.handshake()
            #expect(stream.client.isResumed == (number > 0))
            #expect(destination.sessionCount == 1)
        }
    }

    @Test("a server with another name is refused with the expected and the actual name")
    func otherName() throws {
        for name in ["elsewhere.example", "127.0.0.2", "::1", "lhost", "calhost"] {
            let destination = TLSDestination(try peers.context(), name: name)
            let failure = try #require(throws: TLSFailure.self) { try peers.connect(to: destination).handshake() }
            guard case .tls(let reason) = failure else {
                Issue.record("\(failure)")
                continue
            }
            #expect(reason.contains("for \(name) is refused: ") && reason.contains("mismatch"))
            #expect(reason.hasSuffix("subject CN=server, issuer CN=authority"))
            #expect(destination.sessionCount == 0)
        }
    }

    @Test("a certificate that is no authority is refused, and text without certificates")
    func authorities() throws {
        #expect(throws: CryptographyError.self) { try TrustedAuthorities(pem: [try peers.server.certificate.pem()]) }
        #expect(throws: CryptographyError.self) { try TrustedAuthorities(pem: [Array("nothing".utf8)]) }
        let twice = try TrustedAuthorities(pem: [peers.authority, peers.authority])
        #expect(twice.certificates.count == 2 && twice.skipped == 0)
    }

    @Test("in a foreign bundle certificates that are no authority are skipped and counted")
    func bundle() throws {
        let leaf = try peers.server.certificate.pem()
        let bundle = try TrustedAuthorities(pem: [leaf + peers.authority + leaf], skipsOthers: true)
        #expect(bundle.certificates.map(\.subject) == ["CN=authority"] && bundle.skipped == 2)
        // The server presents this certificate; if it were trusted itself, it would be sufficient.
        let none = try TrustedAuthorities(pem: [leaf], skipsOthers: true)
        #expect(none.certificates.isEmpty && none.skipped == 1)
        let context = try ClientContext(ClientContext.Settings(authorities: none), library: peers.library)
        #expect(throws: TLSFailure.self) {
            try peers.connect(to: TLSDestination(context, name: "localhost")).handshake()
        }
    }

    @Test("a server is offered one protocol and accepts or refuses it")
    func protocols() throws {
        for offered in ApplicationProtocol.allCases {
            let destination = TLSDestination(try peers.context(speaking: offered), name: "localhost")
            let stream = try Peers(speaking: [.http2, .http11], of: peers).connect(to: destination)
            try stream.handshake()
            #expect(stream.client.hasAgreedOnHTTP2 == (offered == .http2))
            #expect(stream.server.applicationProtocol == offered)
            let other: ApplicationProtocol = offered == .http2 ? .http11 : .http2
            #expect(throws: TLSFailure.self) {
                try Peers(speaking: [other], of: peers).connect(to: destination).handshake()
            }
        }
    }

    @Test("a key that does not match its certificate is refused")
    func foreignKey() throws {
        let settings = ClientContext.Settings(
            authorities: try TrustedAuthorities(pem: [peers.authority]),
            identity: (try peers.client.certificate.pem(), try peers.server.key.pem()))
        let error = try #require(throws: CryptographyError.self) {
            _ = try ClientContext(settings, library: peers.library)
        }
        #expect(error.doing.contains("it must be the key of CN=client"))
    }
}
