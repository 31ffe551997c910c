internal import Cryptography
internal import EventLoop
internal import Gateway
internal import Registry
internal import Server

/// A generation of the service: the listeners, rules and connections of one value of settings. A request is handled by
/// the rules under which its connection was accepted.
final class EnrolmentGeneration: ServiceGeneration {
    let listening: ServiceListening
    private let rules: EnrolmentRules
    /// Nil if no listener is for enrolled devices.
    private let enforcement: EndpointEnforcement?
    private let shared: EnrolmentShared
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
        shared = context.shared
        rules = try EnrolmentRules(settings, identity, context.library)
        let contexts = try ServiceListening.contexts(
            of: settings.listeners, connections: settings.server.connections,
            sharing: settings.secrets.ofSessions, context.library)
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
        listening = ServiceListening(
            contexts, settings: settings.server, shutdownTimeout: settings.shutdownTimeout, loop: context.loop,
            pool: context.pool, application: application)
    }

    /// Checks the settings without serving anything.
    static func check(_ settings: EnrolmentSettings, _ library: LibraryContext) throws(EnrolmentStartError) {
        let id = RandomID([UInt8](repeating: 0, count: 16))
        guard let id else { preconditionFailure("16 bytes are an id") }
        _ = try EnrolmentRules(settings, StoreIdentity(store: id, epoch: id), library)
        _ = try ServiceListening.contexts(
            of: settings.listeners, connections: settings.server.connections, library)
        if let receipts = settings.receipts { try ReceiptRefresher.check(receipts, library) }
    }

    func begin() {
        shared.tokenKeys.adopt(rules.tokenKeys, now: WallClock.seconds)
        expiry.begin()
        receipts?.begin()
        if let statusList { statusList.begin() } else { shared.dropStatusList() }
        if let issuerKeys { issuerKeys.begin() } else { shared.dropIssuerKeys() }
    }

    /// Adopts a new epoch of the store.
    func renew(_ identity: StoreIdentity) throws(CryptographyError) {
        try rules.nonces.renew(identity)
        try enforcement?.renew(identity)
    }

    func stopUpkeep() {
        expiry.stop()
        receipts?.stop()
        statusList?.stop()
        issuerKeys?.stop()
    }
}
