internal import Cryptography
internal import Registry
internal import Server
internal import TLS
internal import Telemetry
internal import Vocabulary

/// What the requests of a client connection share: made by the first request, used by the others on all streams.
final class ClientMemory: ConnectionMemory {
    private unowned let gateway: GatewayApplication
    private unowned let connection: ServerConnection
    /// The start of the Forwarded field.
    private(set) lazy var forwarded = ClientNetwork.forwardedPrefix(of: connection.peer)
    /// The address for X-Forwarded-For.
    private(set) lazy var address = Array(connection.peer.host.utf8)
    private(set) lazy var piece = gateway.log?.client(connection.peer) ?? ConnectionPiece()
    /// The host of the listener for the connection; nil for the listener's own settings.
    private(set) lazy var host: [UInt8]? = connection.servedHost
    /// The owner of the source's token bucket.
    private(set) lazy var source = connection.peer.block.hashValue
    /// The id of the certificate's key; nil if that is not P-256, or there is no certificate.
    let keyID: KeyID?
    /// What decides whether an unknown device is among those on which a route is enforced: the certificate's key, or the
    /// certificate itself if no device can have such a key.
    var shareKey: KeyID? {
        guard keyID == nil, let thumbprint = connection.identity?.thumbprint else { return keyID }
        return KeyID(digest: thumbprint.span)
    }
    /// The kind of the certificate. Only the registry can vouch for a self-signed one. Nil without a certificate.
    let certificate: ClientIdentity.Kind?
    /// The client for shares of upstreams and of tunnels.
    private(set) lazy var key = connection.clientKey ?? 0
    /// What the client calls itself, for tables of observed routes: of the connection's first request there.
    var version: String?
    /// The client for balancing: of equal numbers in all processes. Its certificate's key, else its certificate, else
    /// its address.
    private(set) lazy var balanceKey: UInt64 =
        keyID?.prefix ?? connection.identity?.thumbprint.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        ?? connection.peer.block.number
    /// The name in logs of the connection's device, which rarely changes.
    var label: (device: DeviceID, label: DeviceLabel?)?
    /// The pseudonym of that device for the last upstream.
    var pseudonym: (device: DeviceID, upstream: Int, digest: Digest256)?

    private init(of connection: ServerConnection, _ gateway: GatewayApplication) {
        self.gateway = gateway
        self.connection = connection
        // The handshake is complete, and the certificate does not change.
        keyID = connection.identity?.keyID
        certificate = connection.identity?.kind
    }

    /// Returns the connection's memory. A connection has the same application for all its life.
    static func of(_ connection: ServerConnection, _ gateway: GatewayApplication) -> ClientMemory {
        if let known = connection.memory as? ClientMemory { return known }
        let made = ClientMemory(of: connection, gateway)
        connection.memory = made
        return made
    }
}
