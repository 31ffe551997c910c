internal import COpenSSL

/// What the handshake leaves for the connection. Owned by the `TLSStream`; OpenSSL's connection refers to it.
final class HandshakeRecord {
    /// Keeps every context alive that the connection may be given to.
    let hosts: VirtualHosts
    /// Whose the connection is: that of everybody else, until the client has said what it asks for.
    private(set) var context: ServerContext
    /// What the client asked for; nil if for nothing, or that is not known yet.
    private(set) var serverName: ServerName?
    private(set) var isHostChosen = false
    var helloFault: ClientHelloFault?
    var fault: ClientCertificateFault?
    /// The client's chain had been verified before.
    var isChainKnown = false

    private static let index = ag_ssl_get_ex_new_index(nil)

    init(_ hosts: VirtualHosts) {
        self.hosts = hosts
        context = hosts.standard
    }

    func hostChosen(_ context: ServerContext, _ name: ServerName?) {
        self.context = context
        serverName = name
        isHostChosen = true
    }

    /// - Returns: false if there is no memory for it.
    func attach(to connection: OpaquePointer) -> Bool {
        SSL_set_ex_data(connection, Self.index, Unmanaged.passUnretained(self).toOpaque()) == 1
    }

    static func of(_ connection: OpaquePointer) -> HandshakeRecord? {
        SSL_get_ex_data(connection, index).map { Unmanaged<HandshakeRecord>.fromOpaque($0).takeUnretainedValue() }
    }
}
