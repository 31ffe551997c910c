import Bytes
import COpenSSL
import Cryptography
import Glibc
import Testing

@testable import TLS

/// A server of this process, and the settings of a client that connects to it.
struct Peers {
    struct Identity {
        let certificate: Certificate
        let key: PrivateKey
    }

    let library: LibraryContext
    let authority: [UInt8]
    let server: Identity
    let client: Identity
    private let hosts: VirtualHosts

    /// Makes a server with an authority of its own, or with that of another one.
    ///
    /// - Parameter groups: the server's groups instead of those of its policy.
    init(
        only12: Bool = false, speaking: [ApplicationProtocol] = [.http11], groups: String? = nil,
        of other: Peers? = nil
    ) throws {
        let library = try LibraryContext()
        self.library = library
        let issuer = try CertificateIssuer.selfSigned(
            commonName: "authority", lifetime: 3600, key: try .generateP256(library), library)
        func issue(_ purpose: CertificateTemplate.Purpose, _ name: String) throws -> Identity {
            let key = try PrivateKey.generateP256(library)
            let template = CertificateTemplate(purpose: purpose, commonName: name, lifetime: 3600)
            return Identity(certificate: try issuer.issue(template, for: key.publicKey), key: key)
        }
        if let other {
            (authority, server, client) = (other.authority, other.server, other.client)
        } else {
            authority = try issuer.certificate.pem()
            server = try issue(.server(names: ["localhost", "127.0.0.1"]), "server")
            client = try issue(.client, "client")
        }
        let context = try ServerContext(
            chain: [server.certificate], key: server.key, authorities: try Certificate.all(inPEM: authority, library),
            policy: .intermediate, protocols: speaking, sessions: SessionTable(limit: 64), library: library)
        if only12 { _ = ag_ssl_ctx_set_max_proto_version(context.pointer, TLS1_2_VERSION) }
        if let groups { try #require(ag_ssl_ctx_set1_groups_list(context.pointer, groups) == 1) }
        hosts = VirtualHosts(context)
    }

    func context(
        _ policy: TLSPolicy = .modern, speaking applicationProtocol: ApplicationProtocol = .http11
    ) throws -> ClientContext {
        try ClientContext(
            authorities: try TrustedAuthorities(pem: [authority]), identity: ([client.certificate], client.key),
            policy: policy, speaking: applicationProtocol, library: library)
    }

    func connect(to destination: TLSDestination) throws -> Pair {
        var sockets: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        try #require(socketpair(AF_UNIX, type, 0, &sockets) == 0)
        return Pair(
            client: try #require(TLSStream(connecting: sockets[0], to: destination)),
            server: try #require(TLSStream(accepting: sockets[1], hosts)), sockets: sockets)
    }
}

/// The two ends of a connection.
final class Pair {
    let client: TLSStream
    let server: TLSStream
    private let sockets: [Int32]
    private let pool = BufferPool()

    init(client: TLSStream, server: TLSStream, sockets: [Int32]) {
        self.client = client
        self.server = server
        self.sockets = sockets
    }

    deinit {
        for socket in sockets { close(socket) }
    }

    /// Runs the handshake until the client has its tickets.
    ///
    /// - Returns: the number of times that the client had its turn.
    @discardableResult
    func handshake() throws(TLSFailure) -> Int {
        var isClientDone = false
        var isServerDone = false
        var turns = 0
        while !isClientDone || !isServerDone {
            turns += 1
            if !isClientDone { isClientDone = try Self.isDone(client.handshake()) }
            if !isServerDone { isServerDone = try Self.isDone(server.handshake()) }
        }
        var buffer = ByteBuffer(pool: pool)
        guard client.read(into: &buffer) == .wantRead else { preconditionFailure("nobody has said anything") }
        return turns
    }

    private static func isDone(_ step: TLSStep) throws(TLSFailure) -> Bool {
        switch step {
        case .done: return true
        case .wantRead, .wantWrite: return false
        case .endOfStream: throw .disconnected
        case .failed(let failure): throw failure
        }
    }
}
