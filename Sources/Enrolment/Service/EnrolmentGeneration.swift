internal import Bytes
internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Registry
internal import Server
internal import TLS
internal import Vocabulary

/// A generation of the service: the listeners, rules and connections of one value of settings. A request is handled by
/// the rules under which its connection was accepted.
final class EnrolmentGeneration {
    let acceptor: Acceptor
    private let rules: EnrolmentRules
    /// Nil if no listener is for enrolled devices.
    private let enforcement: EndpointEnforcement?
    /// The contexts of the listeners, in the order of the settings.
    private let contexts: [(name: String, tls: ServerContext, proxies: TrustedProxies)]
    private let loop: Loop
    private let settings: EnrolmentSettings
    private let shared: EnrolmentShared
    private var patience: LoopTimer?
    /// The refresher of receipts. Nil if receipts are not refreshed.
    private let receipts: ReceiptRefresher?
    /// The refresher of the status list. Nil if no app demands it.
    private let statusList: StatusListRefresher?
    /// The refresher of the keys of admission tokens. Nil if they are in files, or none are needed.
    private let issuerKeys: IssuerKeyRefresher?
    private let expiry: ExpiryFigures

    /// Creates a generation.
    ///
    /// - Parameter identity: The store's present identity.
    init(
        _ settings: EnrolmentSettings, _ identity: StoreIdentity, _ context: EnrolmentContext
    ) throws(EnrolmentStartError) {
        self.settings = settings
        loop = context.loop
        shared = context.shared
        rules = try EnrolmentRules(settings, identity, context.library)
        contexts = try Self.contexts(settings, context.library)
        do throws(CryptographyError) {
            enforcement = try settings.enforcement.map { settings throws(CryptographyError) in
                try EndpointEnforcement(settings, context.registry, context.library)
            }
        } catch {
            throw EnrolmentStartError("\(error)")
        }
        let audit = EnrolmentAudit(context.audit)
        let handler = EnrolmentHandler(
            rules, context.registry, context.registryRequests, context.shared, enforcement: enforcement, audit: audit)
        let application = EnrolmentApplication(
            handler: handler, contentLimit: min(settings.contentLimit, RequestContent.lengthLimit),
            rates: AddressLimits.Rates(
                requestsPerMinute: settings.requestsPerMinute, connections: settings.connectionsPerAddress),
            shared: context.shared, audit: audit, servesDevices: settings.listeners.map { $0.clients != nil })
        var refresher: ReceiptRefresher?
        if let receipts = settings.receipts {
            refresher = try ReceiptRefresher(receipts, settings.apps, rules, context)
        }
        receipts = refresher
        var listRefresher: StatusListRefresher?
        if let list = settings.statusList { listRefresher = try StatusListRefresher(list, rules, context) }
        statusList = listRefresher
        var keyRefresher: IssuerKeyRefresher?
        if let keys = settings.fetchedKeys { keyRefresher = try IssuerKeyRefresher(keys, context) }
        issuerKeys = keyRefresher
        expiry = ExpiryFigures(context)
        acceptor = Acceptor(
            loop: loop, settings: settings.server, pool: context.pool, application: application)
    }

    private static func contexts(
        _ settings: EnrolmentSettings, _ library: LibraryContext
    ) throws(EnrolmentStartError) -> [(name: String, tls: ServerContext, proxies: TrustedProxies)] {
        // Without client certificates no session is ever resumed from the table, so it is small.
        let hasDevices = settings.listeners.contains { $0.clients != nil }
        let sessions = SessionTable(limit: hasDevices ? settings.server.connections : 16)
        var contexts: [(name: String, tls: ServerContext, proxies: TrustedProxies)] = []
        for listener in settings.listeners {
            do throws(CryptographyError) {
                let context = try ServerContext(
                    chain: try Certificate.all(inPEM: listener.certificates, library),
                    key: try PrivateKey(pem: listener.key, library),
                    authorities: try listener.clients.map { clients throws(CryptographyError) in
                        clients.authorities.isEmpty ? [] : try Certificate.all(inPEM: clients.authorities, library)
                    }, admission: listener.clients?.admission ?? ClientAdmission(),
                    policy: listener.policy, protocols: listener.protocols, staple: listener.staple, sessions: sessions,
                    library: library)
                contexts.append((listener.name, context, listener.proxies))
            } catch {
                throw EnrolmentStartError("listener \(listener.name): \(error)")
            }
        }
        return contexts
    }

    /// Checks the settings without serving anything.
    static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        let id = RandomID([UInt8](repeating: 0, count: 16))
        guard let id else { preconditionFailure("16 bytes are an id") }
        _ = try EnrolmentRules(settings, StoreIdentity(store: id, epoch: id), library)
        _ = try contexts(settings, library)
        if let receipts = settings.receipts { try ReceiptRefresher.check(receipts, library) }
    }

    var names: [String] { contexts.map(\.name) }
    var connections: Int { acceptor.connectionCount }

    /// Begins to accept.
    ///
    /// - Parameter sockets: Descriptors of listening sockets, one for each name. Takes ownership.
    func listen(_ sockets: [String: Int32]) {
        for (name, tls, proxies) in contexts {
            guard let descriptor = sockets[name] else { preconditionFailure("no socket for \(name)") }
            acceptor.listen(on: Socket(adopting: descriptor), tls: tls, proxies: proxies)
        }
        shared.tokenKeys.adopt(rules.tokenKeys, now: WallClock.seconds)
        expiry.begin()
        receipts?.begin()
        if let statusList { statusList.begin() } else { shared.dropStatusList() }
        if let issuerKeys { issuerKeys.begin() } else { shared.dropIssuerKeys() }
    }

    /// Duplicates the descriptor of a listening socket.
    ///
    /// - Returns: nil if no descriptor is left, or the name is unknown.
    func duplicateListener(_ name: String) -> Int32? {
        // All listeners were added in the order of the contexts.
        contexts.firstIndex { $0.name == name }.flatMap { acceptor.duplicateListener($0) }
    }

    /// Adopts a new epoch of the store.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        try rules.nonces.renew(identity)
        try enforcement?.renew(identity)
    }

    /// Closes the connections of devices that were revoked, or of ended bindings.
    func bar(_ keys: [KeyID]) {
        acceptor.abort { connection in connection.identity?.keyID.map(keys.contains) ?? false }
    }

    /// Stops accepting. Connections may send requests until their idle timeout, then they end.
    func retire(ended: @escaping () -> Void) {
        stopUpkeep()
        patience = LoopTimer(loop: loop, interval: settings.server.keepAliveTimeout) { [unowned self] in
            drain(ended: ended)
        }
        acceptor.retire { [unowned self] in end(ended) }
    }

    /// Stops accepting, closes idle connections, and lets the others finish their request within a time limit.
    func drain(ended: @escaping () -> Void) {
        stopUpkeep()
        patience = LoopTimer(loop: loop, interval: settings.shutdownTimeout) { [unowned self] in abort() }
        acceptor.drain { [unowned self] in end(ended) }
    }

    private func stopUpkeep() {
        expiry.stop()
        receipts?.stop()
        statusList?.stop()
        issuerKeys?.stop()
    }

    /// Cancels the timer and reports the end. The timer would otherwise keep contexts, pools and keys alive until it
    /// fires.
    private func end(_ ended: () -> Void) {
        patience = nil
        ended()
    }

    /// Closes all connections at once.
    func abort() {
        stopUpkeep()
        acceptor.abortAll()
    }
}
