import COpenSSL
import Cryptography
import Testing

@testable import TLS

@Suite("Key exchange")
struct KeyExchangeTests {
    private let peers: Peers

    /// The client's turns in a handshake whose first ClientHello suffices: that, and its last messages.
    private static let atOnce = 2
    private static let afterRetry = 3

    /// Whether the library has X25519MLKEM768.
    private static let hasHybrid: Bool = {
        guard let context = SSL_CTX_new(TLS_client_method()) else { return false }
        defer { SSL_CTX_free(context) }
        return ag_ssl_ctx_set1_groups_list(context, "X25519MLKEM768") == 1
    }()
    private static let best: KeyExchange = hasHybrid ? .hybrid : .x25519

    init() throws {
        peers = try Peers()
    }

    /// Connects a client, with other groups than those of its policy.
    private func connect(_ groups: String, to server: Peers? = nil) throws -> (pair: Pair, turns: Int) {
        let context = try peers.context()
        try #require(ag_ssl_ctx_set1_groups_list(context.pointer, groups) == 1)
        let pair = try (server ?? peers).connect(to: TLSDestination(context, name: "localhost"))
        return (pair, try pair.handshake())
    }

    @Test("client and server choose X25519MLKEM768 where the library has it, without a HelloRetryRequest")
    func best() throws {
        let pair = try peers.connect(to: TLSDestination(try peers.context(), name: "localhost"))
        #expect(try pair.handshake() == Self.atOnce)
        #expect(pair.client.keyExchange == Self.best && pair.server.keyExchange == Self.best)
    }

    @Test("a client with one group exchanges keys on it, without a HelloRetryRequest")
    func one() throws {
        for (groups, exchange) in [("X25519", KeyExchange.x25519), ("P-256", .p256), ("P-256:X25519", .p256)] {
            let (pair, turns) = try connect(groups)
            #expect(pair.server.keyExchange == exchange && turns == Self.atOnce, "\(groups)")
        }
    }

    @Test("a client with none of the groups is refused")
    func others() {
        for groups in ["P-384", "P-521:X448"] {
            #expect(throws: TLSFailure.self, "\(groups)") { try connect(groups) }
        }
    }

    @Test(
        "a client that supports X25519MLKEM768 but sent no key share for it is asked for one",
        .enabled(if: Self.hasHybrid, "the library has no X25519MLKEM768"))
    func retry() throws {
        let (pair, turns) = try connect("X25519:X25519MLKEM768")
        #expect(pair.server.keyExchange == .hybrid && turns == Self.afterRetry)
    }

    @Test("a service without X25519MLKEM768 needs no second ClientHello; one with only P-384 does")
    func services() throws {
        for (groups, exchange, turns) in [
            ("X25519", KeyExchange.x25519, Self.atOnce), ("P-384", .other, Self.afterRetry),
        ] {
            let service = try Peers(groups: groups, of: peers)
            let pair = try service.connect(to: TLSDestination(try peers.context(), name: "localhost"))
            #expect(try pair.handshake() == turns, "\(groups)")
            #expect(pair.client.keyExchange == exchange)
        }
    }

    @Test("a resumed connection of TLS 1.3 exchanges keys again, one of TLS 1.2 none")
    func resumed() throws {
        for (policy, server, exchanges) in [
            (TLSPolicy.modern, peers, [Self.best, Self.best]),
            (.intermediate, try Peers(only12: true, of: peers), [.x25519, nil]),
        ] {
            let destination = TLSDestination(try peers.context(policy), name: "localhost")
            for exchange in exchanges {
                let pair = try server.connect(to: destination)
                try pair.handshake()
                #expect(pair.client.keyExchange == exchange && pair.server.keyExchange == exchange)
            }
            #expect(exchanges.count == 2)
        }
    }
}
