internal import Bytes
internal import Cryptography
public import EventLoop
internal import HTTP
public import Registry
internal import Server

/// Serves the administration of a running gateway on a Unix socket, which only the gateway's own user, and root, can reach.
///
/// Lives on one loop, which must not be a worker's: what operators ask for must not wait for traffic, nor traffic for it.
public final class AdministrationServer {
    private let file: SocketFile
    private let acceptor: Acceptor

    /// Listens. Nothing is served before the loop runs.
    ///
    /// - Parameters:
    ///   - registry: whose devices are administered; nil if there is none, and no endpoint for them either.
    ///   - endpoints: what is served besides.
    public convenience init(
        loop: Loop, socketPath: String, registry: DeviceRegistry?, endpoints: [AdministrationEndpoint] = []
    ) throws(AdministrationStartError) {
        try self.init(
            loop: loop, socketPath: socketPath, registry: registry, endpoints: endpoints, settings: .administration)
    }

    init(
        loop: Loop, socketPath: String, registry: DeviceRegistry?, endpoints: [AdministrationEndpoint],
        settings: ServerSettings
    ) throws(AdministrationStartError) {
        do {
            var endpoints = endpoints
            if let registry {
                let commands = try RegistryCommands(registry, loop: loop)
                endpoints += DeviceEndpoints.all(performing: commands.perform, try LibraryContext())
                endpoints.append(.renewEpoch(performing: commands.perform))
            }
            acceptor = Acceptor(
                loop: loop, settings: settings, pool: BufferPool(idleLimit: 4),
                application: AdministrationApplication(EndpointTable(endpoints: endpoints)))
            file = try SocketFile(path: socketPath)
            acceptor.listen(on: try file.listen())
        } catch {
            throw AdministrationStartError(description: "administration socket: \(error)")
        }
    }

    deinit {
        stop()
    }

    /// Ends every connection and removes the socket's file. Harmless when done already.
    public func stop() {
        acceptor.drain {}
        acceptor.abortAll()
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

    init(_ endpoints: EndpointTable) {
        self.endpoints = endpoints
    }

    override func makeExchange(for connection: ServerConnection) -> Exchange {
        AdministrationExchange(connection: connection, endpoints: endpoints)
    }
}

extension ServerSettings {
    /// For a few operators and scrapers.
    static var administration: ServerSettings {
        var settings = ServerSettings()
        settings.head = HeadLimits(bytes: 8 * 1024, target: 1024, fields: 32)
        settings.connections = 64
        settings.requestsPerConnection = 1_000
        settings.headTimeout = .seconds(5)
        settings.contentIdleTimeout = .seconds(5)
        settings.keepAliveTimeout = .seconds(15)
        settings.lingerTimeout = .seconds(1)
        return settings
    }
}
