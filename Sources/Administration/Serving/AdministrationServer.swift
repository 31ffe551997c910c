internal import Bytes
public import Cryptography
public import EventLoop
internal import HTTP
public import Registry
public import Server
internal import TLS

/// The server of a running gateway's administration. Only the gateway's own user and root can connect to its Unix
/// socket. Its TCP addresses require a token or a certificate.
///
/// It needs a loop that is not a worker's, so that operators and traffic do not wait for each other.
public final class AdministrationServer {
    /// The refusals since the server began.
    public let refusals: AdministrationRefusals
    private let file: SocketFile
    private let socket: Acceptor
    private let listeners: AdministrationListeners
    private let commands: RegistryRequests?

    /// Listens. Nothing is served before the loop runs.
    ///
    /// - Parameters:
    ///   - listeners: The TCP listeners.
    ///   - registry: The registry with the devices. Nil if there is none, and no endpoints for devices.
    ///   - subjects: The pseudonyms of people. Nil if subjects cannot be revoked here.
    ///   - endpoints: Additional endpoints.
    ///   - descriptorCeiling: Connections are accepted below this number, instead of the settings' own.
    ///   - inherited: Sockets that the process inherited, perhaps including those for these addresses.
    ///   - audit: Receives each requested change with client and outcome. It also receives up to 30 refused clients a
    ///     minute.
    public init(
        loop: Loop, socketPath: String, listeners: [AdministrationListener] = [], registry: DeviceRegistry?,
        subjects: SubjectPseudonyms? = nil, endpoints: [AdministrationEndpoint] = [],
        settings: ServerSettings = .administration, descriptorCeiling: Int32? = nil,
        inherited: InheritedSockets? = nil, audit: @escaping (AdministrationNotice) -> Void = { _ in }
    ) throws(AdministrationStartError) {
        var settings = settings
        if let descriptorCeiling { settings.descriptorCeiling = descriptorCeiling }
        let refusals = AdministrationRefusals { audit(.refused($0)) }
        self.refusals = refusals
        let act: (AdministrationAct) -> Void = { audit(.act($0)) }
        var endpoints = endpoints
        let pages: PageEndpoints
        do {
            var made: RegistryRequests?
            if let registry {
                let commands = try RegistryRequests(registry, loop: loop)
                made = commands
                endpoints += DeviceEndpoints.all(performing: commands.perform, try LibraryContext(), audit: act)
                endpoints.append(.renewEpoch(performing: commands.perform, audit: act))
                endpoints.append(.export(performing: commands.perform, audit: act))
                endpoints += ServiceEndpoints.all(performing: commands.perform, audit: act)
                endpoints += CertificateEndpoints.all(performing: commands.perform, audit: act)
                if let subjects {
                    endpoints.append(.revokeSubject(subjects, performing: commands.perform, audit: act))
                }
            }
            commands = made
            pages = try PageEndpoints(audit: act)
            file = try SocketFile(path: socketPath, inherited: inherited)
        } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
        let pool = BufferPool(idleLimit: 4)
        func acceptor(_ accessPoint: AccessPoint, _ settings: ServerSettings) throws(CryptographyError) -> Acceptor {
            let sessions = try pages.sessions(at: accessPoint)
            var table = EndpointTable(endpoints: endpoints + pages.endpoints(at: accessPoint, sessions))
            // Clients without credentials do not learn which others there are.
            if accessPoint.level == .health { table = table.only(.health) }
            return Acceptor(
                loop: loop, settings: settings, pool: pool,
                application: AdministrationApplication(table, accessPoint, sessions, refusals, audit: act))
        }
        do throws(CryptographyError) { socket = try acceptor(.socket, settings) } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
        // The socket's mode authenticates its clients.
        settings.strangersGiveWay = true
        self.listeners = AdministrationListeners(loop: loop) { [settings] accessPoint throws(CryptographyError) in
            try acceptor(accessPoint, settings)
        }
        do throws(SocketFileError) { socket.listen(on: try file.listen()) } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
        for listener in listeners { try self.listeners.open(listener, inherited) }
    }

    deinit {
        stop()
    }

    /// Prepares listeners with other tokens or certificates. They serve after `adopt`.
    ///
    /// - Parameter listeners: Listeners at the present addresses.
    public func prepare(_ listeners: [AdministrationListener]) throws(AdministrationStartError) {
        try self.listeners.prepare(listeners)
    }

    /// Serves the prepared listeners.
    public func adopt() { listeners.adopt() }

    /// Discards the prepared listeners.
    public func discard() { listeners.discard() }

    /// Duplicates the descriptors of the listening sockets and of the Unix socket's lock, for a process that takes
    /// over. The caller owns the duplicates.
    ///
    /// - Returns: nil if too few descriptors are left.
    public func duplicateSockets() -> [Int32]? {
        // A socket of a service manager has no lock.
        let sockets =
            [socket.duplicateListener(0)] + (file.isLocked ? [file.duplicateLock()] : []) + listeners.duplicateSockets()
        let descriptors = sockets.compactMap(\.self)
        guard descriptors.count < sockets.count else { return descriptors }
        for descriptor in descriptors { _ = Socket(adopting: descriptor) }
        return nil
    }

    /// Stops accepting and answers pending requests, because another process serves the same sockets from now on.
    public func handOver() {
        file.giveAway()
        socket.drain {}
        listeners.drain()
    }

    /// Switches to another registry of this process.
    public func turn(to registry: DeviceRegistry) throws(AdministrationStartError) {
        do throws(EventLoopError) { try commands?.turn(to: registry) } catch {
            throw AdministrationStartError(description: "administration socket: \(error.text)")
        }
    }

    /// Closes all connections and removes the socket's file. May be called repeatedly.
    public func stop() {
        socket.drain {}
        socket.abortAll()
        listeners.stop()
        file.remove()
    }
}

/// The handler of connections and requests of one access point.
final class AdministrationApplication: Application {
    let endpoints: EndpointTable
    let accessPoint: AccessPoint
    let sessions: PageSessions?
    let refusals: AdministrationRefusals
    let audit: (AdministrationAct) -> Void

    init(
        _ endpoints: EndpointTable, _ accessPoint: AccessPoint, _ sessions: PageSessions?,
        _ refusals: AdministrationRefusals, audit: @escaping (AdministrationAct) -> Void
    ) {
        self.endpoints = endpoints
        self.accessPoint = accessPoint
        self.sessions = sessions
        self.refusals = refusals
        self.audit = audit
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        AdministrationExchange(connection: connection, application: self)
    }

    override func connectionRefused(_ connection: ServerConnection, _ refusal: ConnectionRefusal) {
        switch refusal {
        case .peer, .limit, .listenerLimit, .sourceLimit, .clientLimit, .handshakeLimit, .memory:
            refusals.add(.connections, connection.clientName, at: accessPoint.name, .now)
        // This is another process that tests whether something listens here.
        case .handshake(.disconnected): break
        case .handshake, .proxyHeader, .handshakeTimeout, .certificateExpired, .certificateBarred, .http2:
            refusals.add(.handshake, connection.clientName, at: accessPoint.name, .now)
        }
    }
}

extension ServerSettings {
    /// The settings for a few operators and scrapers.
    public static var administration: ServerSettings {
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

extension RegistryRequests {
    /// Sends a command.
    ///
    /// - Parameter completion: Called once, on the loop's thread.
    func perform(
        _ command: RegistryCommand, completion: @escaping (Result<RegistryReply, AdministrationFault>) -> Void
    ) {
        let isSent = send(command) { completion($0.mapError { AdministrationFault($0, asking: command) }) }
        if !isSent { completion(.failure(.busy)) }
    }
}
