internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Registry
internal import Server
internal import TLS

/// What is served by one value of settings: listeners, rules, and the connections that were accepted under them. These keep
/// it: a request is judged by the rules its connection came in under.
final class EnrolmentGeneration {
    private let acceptor: Acceptor
    private let rules: EnrolmentRules
    /// By listener, in the order of the settings.
    private let contexts: [(name: String, tls: ServerContext, proxies: TrustedProxies)]
    private let loop: Loop
    private let settings: EnrolmentSettings
    private var patience: LoopTimer?
    /// Nil if nobody is asked for newer receipts.
    private let receipts: ReceiptRefresher?

    /// What a generation is made with, and what outlives it.
    struct EnrolmentContext {
        let loop: Loop
        let pool: BufferPool
        let library: LibraryContext
        let registry: DeviceRegistry
        let questions: RegistryRequests
        let shared: EnrolmentShared
        let audit: (EnrolmentDecision) -> Void
        let tell: (ReceiptNotice) -> Void
    }

    /// - Parameter identity: of the store, as it is now.
    init(
        _ settings: EnrolmentSettings, _ identity: StoreIdentity, _ surroundings: EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        loop = surroundings.loop
        rules = try EnrolmentRules(settings, identity, surroundings.library)
        contexts = try Self.contexts(settings, surroundings.library)
        let handler = EnrolmentHandler(
            rules, surroundings.registry, surroundings.questions, surroundings.shared,
            audit: EnrolmentAudit(surroundings.audit))
        let application = EnrolmentApplication(
            handler: handler, contentLimit: min(settings.contentLimit, RequestContent.lengthLimit),
            rates: AddressLimits.Rates(
                requestsPerMinute: settings.requestsPerMinute, connections: settings.connectionsPerAddress),
            shared: surroundings.shared)
        var refresher: ReceiptRefresher?
        if let receipts = settings.receipts {
            refresher = try ReceiptRefresher(receipts, settings.apps, rules, surroundings)
        }
        receipts = refresher
        acceptor = Acceptor(
            loop: loop, settings: settings.server, pool: surroundings.pool, application: application)
    }

    private static func contexts(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws(EnrolmentStartError) -> [(name: String, tls: ServerContext, proxies: TrustedProxies)] {
        // Without clients' certificates no session is ever found again: none need be kept.
        let sessions = SessionTable(limit: 16)
        var contexts: [(name: String, tls: ServerContext, proxies: TrustedProxies)] = []
        for listener in settings.listeners {
            do throws(CryptographyError) {
                let context = try ServerContext(
                    chain: try Certificate.all(inPEM: listener.certificates, library),
                    key: try PrivateKey(pem: listener.key, library), authorities: nil,
                    policy: listener.policy, protocols: listener.protocols, staple: listener.staple, sessions: sessions,
                    library: library)
                contexts.append((listener.name, context, listener.proxies))
            } catch {
                throw EnrolmentStartError("listener \(listener.name): \(error)")
            }
        }
        return contexts
    }

    /// Finds what is wrong with the settings without serving anything.
    static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        let id = RandomID([UInt8](repeating: 0, count: 16))
        guard let id else { preconditionFailure("16 bytes are an id") }
        _ = try EnrolmentRules(settings, StoreIdentity(store: id, epoch: id), library)
        _ = try contexts(settings, library)
        if let receipts = settings.receipts { try ReceiptRefresher.check(receipts, library) }
    }

    var names: [String] { contexts.map(\.name) }
    var connections: Int { acceptor.connectionCount }

    /// Begins to accept. - Parameter sockets: descriptors of listening sockets, one for each name; taken over.
    func listen(_ sockets: [String: Int32]) {
        for (name, tls, proxies) in contexts {
            guard let descriptor = sockets[name] else { preconditionFailure("no socket for \(name)") }
            acceptor.listen(on: Socket(adopting: descriptor), tls: tls, proxies: proxies)
        }
        receipts?.begin()
    }

    /// A second descriptor of the socket that listens there. - Returns: nil if there is none left, or it does not.
    func duplicateListener(_ name: String) -> Int32? {
        // Listeners were added in the order of the contexts, none left out.
        contexts.firstIndex { $0.name == name }.flatMap { acceptor.duplicateListener($0) }
    }

    /// The store has a fresh epoch.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) { try rules.nonces.renew(identity) }

    /// Accepts no more. Connections may ask as long as they would be kept without asking; then they end.
    func retire(ended: @escaping () -> Void) {
        receipts?.stop()
        patience = LoopTimer(loop: loop, interval: settings.server.keepAliveTimeout) { [unowned self] in
            drain(ended: ended)
        }
        acceptor.retire { [unowned self] in end(ended) }
    }

    /// Accepts no more, closes idle connections, lets the others finish the request they serve, but not for ever.
    func drain(ended: @escaping () -> Void) {
        receipts?.stop()
        patience = LoopTimer(loop: loop, interval: settings.shutdownTimeout) { [unowned self] in abort() }
        acceptor.drain { [unowned self] in end(ended) }
    }

    /// Nothing is left to be patient with. The timer would keep all of this alive till it fires, contexts, pools and keys.
    private func end(_ ended: () -> Void) {
        patience = nil
        ended()
    }

    /// Ends every connection at once.
    func abort() {
        receipts?.stop()
        acceptor.abortAll()
    }
}
