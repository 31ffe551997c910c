package import Bytes
package import Cryptography
package import EventLoop
package import Server
internal import TLS
internal import Vocabulary

/// The listeners of one generation of a service, with their connections.
package final class ServiceListening {
    /// A listener with its TLS context.
    package struct Context {
        fileprivate let name: String
        fileprivate let tls: ServerContext
        fileprivate let proxies: TrustedProxies
    }

    package let acceptor: Acceptor
    private let contexts: [Context]
    private let loop: Loop
    private let keepAliveTimeout: TimeSpan
    private let shutdownTimeout: TimeSpan
    private var patience: LoopTimer?

    /// - Parameters:
    ///   - contexts: In the order of the settings.
    ///   - shutdownTimeout: The time that connections have to end during a shutdown.
    package init(
        _ contexts: [Context], settings: ServerSettings, shutdownTimeout: TimeSpan, loop: Loop, pool: BufferPool,
        application: Application
    ) {
        self.contexts = contexts
        self.loop = loop
        self.shutdownTimeout = shutdownTimeout
        keepAliveTimeout = settings.keepAliveTimeout
        acceptor = Acceptor(loop: loop, settings: settings, pool: pool, application: application)
    }

    /// Builds the TLS contexts of listeners.
    ///
    /// - Parameters:
    ///   - connections: The maximum of connections.
    ///   - secrets: Of session tickets, the one that encrypts first. Empty for secrets of this process.
    package static func contexts(
        of listeners: [EnrolmentSettings.Listener], connections: Int, sharing secrets: [[UInt8]] = [],
        _ library: LibraryContext
    ) throws(EnrolmentStartError) -> [Context] {
        // Without client certificates no session is ever resumed from the table, so it is small.
        let hasDevices = listeners.contains { $0.clients != nil }
        let sessions = SessionTable(limit: hasDevices ? connections : 16, purpose: "devices")
        if !secrets.isEmpty { sessions.share(secrets) }
        var contexts: [Context] = []
        for listener in listeners {
            do throws(CryptographyError) {
                let context = try ServerContext(
                    chain: try Certificate.all(inPEM: listener.certificates, library),
                    key: try PrivateKey(pem: listener.key, library),
                    authorities: try listener.clients.map { clients throws(CryptographyError) in
                        clients.authorities.isEmpty ? [] : try Certificate.all(inPEM: clients.authorities, library)
                    }, admission: listener.clients?.admission ?? ClientAdmission(),
                    policy: listener.policy, protocols: listener.protocols, staple: listener.staple, sessions: sessions,
                    library: library)
                contexts.append(Context(name: listener.name, tls: context, proxies: listener.proxies))
            } catch {
                throw EnrolmentStartError("listener \(listener.name): \(error)")
            }
        }
        return contexts
    }

    package var names: [String] { contexts.map(\.name) }
    package var connections: Int { acceptor.connectionCount }

    /// Begins to accept.
    ///
    /// - Parameter sockets: Descriptors of listening sockets, one for each name. Takes ownership.
    package func listen(_ sockets: [String: Int32]) {
        for context in contexts {
            guard let descriptor = sockets[context.name] else { preconditionFailure("no socket for \(context.name)") }
            acceptor.listen(on: Socket(adopting: descriptor), tls: context.tls, proxies: context.proxies)
        }
    }

    /// Duplicates the descriptor of a listening socket.
    ///
    /// - Returns: nil if no descriptor is left, or the name is unknown.
    func duplicateListener(_ name: String) -> Int32? {
        // All listeners were added in the order of the contexts.
        contexts.firstIndex { $0.name == name }.flatMap { acceptor.duplicateListener($0) }
    }

    /// Closes the connections of devices that were revoked, or of ended bindings.
    func bar(_ keys: [KeyID]) {
        acceptor.abort { connection in connection.identity?.keyID.map(keys.contains) ?? false }
    }

    /// Stops accepting. Connections may send requests until their idle timeout, then they end.
    func retire(ended: @escaping () -> Void) {
        patience = LoopTimer(loop: loop, interval: keepAliveTimeout) { [unowned self] in drain(ended: ended) }
        acceptor.retire { [unowned self] in end(ended) }
    }

    /// Stops accepting, closes idle connections, and lets the others finish their request within a time limit.
    func drain(ended: @escaping () -> Void) {
        patience = LoopTimer(loop: loop, interval: shutdownTimeout) { [unowned self] in acceptor.abortAll() }
        acceptor.drain { [unowned self] in end(ended) }
    }

    /// Cancels the timer and reports the end. The timer would otherwise keep contexts, pools and keys alive until it
    /// fires.
    private func end(_ ended: () -> Void) {
        patience = nil
        ended()
    }
}
