internal import Cryptography
internal import Registry
internal import Server
internal import Vocabulary

/// What the requests of one client connection have in common: made by the first of them, known to the others, on whatever stream
/// they come.
final class ClientMemory: ConnectionMemory {
    private unowned let gateway: GatewayApplication
    private unowned let connection: ServerConnection
    /// The start of Forwarded.
    private(set) lazy var forwarded = ClientNetwork.forwardedPrefix(of: connection.peer)
    private(set) lazy var piece = gateway.log?.client(connection.peer) ?? ConnectionPiece()
    /// The host of the listener that the connection is with; nil if that is the listener's own.
    private(set) lazy var host: [UInt8]? = connection.servedHost
    /// Whose the rate of a source is.
    private(set) lazy var source = connection.peer.block.hashValue
    /// Of its certificate's key; nil where that is not P-256.
    let keyID: KeyID?
    /// Whether only the registry can say whose the certificate is.
    let isSelfSigned: Bool
    /// The client whose share of an upstream its requests use.
    private(set) lazy var key = connection.clientKey ?? 0
    /// How the log calls the connection's device, which hardly ever becomes another one.
    var label: (device: DeviceID, label: DeviceLabel?)?
    /// Of that device, for the upstream it asked for last.
    var pseudonym: (device: DeviceID, upstream: Int, digest: Digest256)?

    private init(of connection: ServerConnection, _ gateway: GatewayApplication) {
        self.gateway = gateway
        self.connection = connection
        // By then the handshake is over, and the client's certificate remains what it is.
        keyID = connection.identity?.keyID
        isSelfSigned = connection.identity?.kind == .selfSigned
    }

    /// A connection has one application for all its life.
    static func of(_ connection: ServerConnection, _ gateway: GatewayApplication) -> ClientMemory {
        if let known = connection.memory as? ClientMemory { return known }
        let made = ClientMemory(of: connection, gateway)
        connection.memory = made
        return made
    }
}
