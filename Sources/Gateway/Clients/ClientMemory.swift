internal import Cryptography
internal import EventLoop
internal import Registry
internal import Server
internal import TLS
internal import Telemetry
internal import Vocabulary

/// What the requests of one client share: the certificate, and what follows from it.
///
/// Made with the first request of a connection. Behind a proxy that terminates TLS, the requests of one connection have
/// different clients, and `ForwardedClients` keeps these.
final class ClientMemory {
    /// The verified certificate; nil if there is none.
    let identity: ClientIdentity?
    /// The id of the certificate's key; nil if that is not P-256, or there is no certificate.
    let keyID: KeyID?
    /// What decides whether an unknown device is among those on which a route is enforced: the certificate's key, or the
    /// certificate itself if no device can have such a key.
    var shareKey: KeyID? {
        guard keyID == nil, let thumbprint = identity?.thumbprint else { return keyID }
        return KeyID(digest: thumbprint.span)
    }
    /// The kind of the certificate. Only the registry can vouch for a self-signed one. Nil without a certificate.
    let certificate: ClientIdentity.Kind?
    /// The client for shares of upstreams and of tunnels: its certificate's key, else its certificate, else its address.
    let key: Int
    /// The client for balancing, likewise, but of equal numbers in all processes.
    let balanceKey: UInt64
    /// What the client calls itself, for tables of observed routes. On a connection of its own, in its first request there.
    var version: String?
    /// The name in logs of the client's device, which rarely changes.
    var label: (device: DeviceID, label: DeviceLabel?)?
    /// The last device token that was verified for the certificate.
    var deviceToken: DeviceTokens.Verified?
    /// The last client attestation that was verified.
    var attestation: ClientAttestations.Verified?
    /// The pseudonym of that device for the last upstream.
    var pseudonym: (device: DeviceID, upstream: Int, digest: Digest256)?
    /// What the last route with `identity` states of that device.
    var statement: DeviceStatement?

    init(_ identity: ClientIdentity?, at origin: ClientOrigin) {
        self.identity = identity
        keyID = identity?.keyID
        certificate = identity?.kind
        key = identity.map { $0.keyID?.hashValue ?? $0.thumbprint.hashValue } ?? origin.block.hashValue
        balanceKey =
            keyID?.prefix ?? identity?.thumbprint.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } ?? origin.block.number
    }
}

/// Where a client's requests come from: its address, in the forms in which services, limits and logs need it.
final class ClientOrigin {
    let peer: SocketAddress
    /// Whether it is the client's address, and not that of a proxy that does not state the client's.
    let isClient: Bool
    private unowned let gateway: GatewayApplication
    /// The start of the Forwarded field.
    private(set) lazy var forwarded = ClientNetwork.forwardedPrefix(of: peer)
    /// The address for X-Forwarded-For. Empty for the peer of a Unix socket.
    private(set) lazy var address = Array((peer.isUnix ? "" : peer.host).utf8)
    private(set) lazy var piece = gateway.log?.client(peer) ?? ConnectionPiece()
    /// The owner of the source's token bucket; nil if the client's address is not known.
    private(set) lazy var source: Int? = isClient ? block.hashValue : nil
    var block: AddressBlock { peer.block }

    init(_ peer: SocketAddress, isClient: Bool = true, _ gateway: GatewayApplication) {
        self.peer = peer
        self.isClient = isClient
        self.gateway = gateway
    }
}

/// The client of a connection, on all its streams. Behind a proxy that terminates TLS, that is the proxy.
final class ConnectionClient: ConnectionMemory {
    private unowned let connection: ServerConnection
    let client: ClientMemory
    let origin: ClientOrigin
    /// The host of the listener for the connection; nil for the listener's own settings.
    private(set) lazy var host: [UInt8]? = connection.servedHost

    private init(of connection: ServerConnection, _ gateway: GatewayApplication) {
        self.connection = connection
        let isProxy = gateway.clients(at: connection.listener) != nil
        origin = ClientOrigin(
            connection.peer, isClient: !isProxy && !connection.peer.isUnix || connection.isRelayed, gateway)
        // The handshake is complete, and the certificate does not change.
        client = ClientMemory(connection.identity, at: origin)
    }

    /// Returns the connection's memory. A connection has the same application for all its life.
    static func of(_ connection: ServerConnection, _ gateway: GatewayApplication) -> ConnectionClient {
        if let known = connection.memory as? ConnectionClient { return known }
        let made = ConnectionClient(of: connection, gateway)
        connection.memory = made
        return made
    }
}
