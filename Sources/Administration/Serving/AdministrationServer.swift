internal import Bytes
public import Cryptography
public import EventLoop
internal import HTTP
public import Registry
internal import Server
internal import TLS

/// Serves the administration of a running gateway on a Unix socket, which only the gateway's own user, and root, can reach,
/// and on TCP addresses to those who show a token or a certificate.
///
/// Lives on one loop, which must not be a worker's: what operators ask for must not wait for traffic, nor traffic for it.
public final class AdministrationServer {
    /// Who was turned away since the server began.
    public let refusals: AdministrationRefusals
    private let file: SocketFile
    private let socket: Acceptor
    private let listeners: AdministrationListeners

    /// Listens. Nothing is served before the loop runs.
    ///
    /// - Parameters:
    ///   - listeners: where else than on the socket.
    ///   - registry: whose devices are administered; nil if there is none, and no endpoint for them either.
    ///   - subjects: the names by which the registry knows people; nil if they cannot be revoked here.
    ///   - endpoints: what is served besides.
    ///   - audit: told of each change of a device that was asked for: what, by whom, and what came of it; and of clients that
    ///     were turned away, up to 30 in a minute.
    public convenience init(
        loop: Loop, socketPath: String, listeners: [AdministrationListener] = [], registry: DeviceRegistry?,
        subjects: SubjectPseudonyms? = nil, endpoints: [AdministrationEndpoint] = [],
        audit: @escaping (String) -> Void = { _ in }
    ) throws(AdministrationStartError) {
        try self.init(
            loop: loop, socketPath: socketPath, listeners: listeners, registry: registry, subjects: subjects,
            endpoints: endpoints, settings: .administration, audit: audit)
    }

    init(
        loop: Loop, socketPath: String, listeners: [AdministrationListener] = [], registry: DeviceRegistry?,
        subjects: SubjectPseudonyms? = nil, endpoints: [AdministrationEndpoint], settings: ServerSettings,
        audit: @escaping (String) -> Void = { _ in }
    ) throws(AdministrationStartError) {
        let refusals = AdministrationRefusals(notice: audit)
        self.refusals = refusals
        let table: EndpointTable
        do {
            var endpoints = endpoints
            if let registry {
                let commands = try RegistryCommands(registry, loop: loop)
                endpoints += DeviceEndpoints.all(performing: commands.perform, try LibraryContext(), audit: audit)
                endpoints.append(.renewEpoch(performing: commands.perform, audit: audit))
                endpoints += CertificateEndpoints.all(performing: commands.perform, audit: audit)
                if let subjects {
                    endpoints.append(.revokeSubject(subjects, performing: commands.perform, audit: audit))
                }
            }
            table = EndpointTable(endpoints: endpoints)
            file = try SocketFile(path: socketPath)
        } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
        let pool = BufferPool(idleLimit: 4)
        func acceptor(_ door: AdministrationDoor, _ settings: ServerSettings) -> Acceptor {
            Acceptor(
                loop: loop, settings: settings, pool: pool,
                application: AdministrationApplication(table, door, refusals))
        }
        socket = acceptor(.socket, settings)
        // Whom the socket's mode lets in is no stranger.
        var settings = settings
        settings.strangersGiveWay = true
        self.listeners = AdministrationListeners(loop: loop) { [settings] in acceptor($0, settings) }
        do throws(SocketFileError) { socket.listen(on: try file.listen()) } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
        for listener in listeners { try self.listeners.open(listener) }
    }

    deinit {
        stop()
    }

    /// Makes ready listeners whose tokens or certificates may be others; nothing has changed before `adopt`.
    ///
    /// - Parameter listeners: at the addresses where it listens now.
    public func prepare(_ listeners: [AdministrationListener]) throws(AdministrationStartError) {
        try self.listeners.prepare(listeners)
    }

    /// Serves what was prepared.
    public func adopt() { listeners.adopt() }

    /// Drops what was prepared.
    public func discard() { listeners.discard() }

    /// Ends every connection and removes the socket's file. Harmless when done already.
    public func stop() {
        socket.drain {}
        socket.abortAll()
        listeners.stop()
        file.remove()
    }
}

/// Why the administration cannot be served.
public struct AdministrationStartError: Error, Equatable, CustomStringConvertible {
    /// For people.
    public let description: String
}

private final class AdministrationApplication: Application {
    private let endpoints: EndpointTable
    private let door: AdministrationDoor
    private let refusals: AdministrationRefusals

    init(_ endpoints: EndpointTable, _ door: AdministrationDoor, _ refusals: AdministrationRefusals) {
        self.endpoints = endpoints
        self.door = door
        self.refusals = refusals
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        AdministrationExchange(connection: connection, endpoints: endpoints, door: door, refusals: refusals)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        switch refusal {
        case .limit, .clientLimit, .handshakeLimit:
            refusals.add(.connections, connection.clientName, at: door.name, .now)
        // Who looks whether something listens here.
        case .handshake(.disconnected): break
        case .handshake, .proxyHeader, .handshakeTimeout, .certificateExpired, .certificateBarred, .http2:
            refusals.add(.handshake, connection.clientName, at: door.name, .now)
        }
    }
}

extension ServerSettings {
    /// For a few operators and scrapers.
    static var administration: ServerSettings {
        var settings = ServerSettings()
        settings.head = HeadLimits(bytes: 8 * 1024, target: 1024, fields: 32)
        settings.connections = 64
        settings.requestsPerConnection = 1_000
        settings.handshakeTimeout = .seconds(5)
        settings.headTimeout = .seconds(5)
        settings.contentIdleTimeout = .seconds(5)
        settings.keepAliveTimeout = .seconds(15)
        settings.lingerTimeout = .seconds(1)
        return settings
    }
}
