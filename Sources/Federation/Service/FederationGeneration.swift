internal import Cryptography
internal import Enrolment
internal import EventLoop
internal import Gateway
internal import Registry
internal import Server

/// A generation of the service: the listeners, rules and connections of one value of settings.
final class FederationGeneration: ServiceGeneration {
    let listening: ServiceListening
    private let enforcement: EndpointEnforcement
    private let refresher: DescriptionRefresher

    init(
        _ settings: FederationSettings, _ identity: StoreIdentity, _ context: FederationContext
    ) throws(EnrolmentStartError) {
        let resources = context.resources
        guard let demands = settings.enforcement else { throw EnrolmentStartError("there are no secrets") }
        let rules: FederationRules
        do throws(CryptographyError) {
            rules = try FederationRules(settings, demands.secrets, resources.library)
            enforcement = try EndpointEnforcement(demands, resources.registry, resources.library)
        } catch {
            throw EnrolmentStartError("\(error)")
        }
        let audit = FederationAudit(context.audit)
        let handler = FederationHandler(rules, resources.registryRequests, enforcement, context.shared, audit)
        let application = FederationApplication(
            handler, settings.contentLimit,
            AddressLimits.Rates(
                requestsPerMinute: settings.requestsPerMinute, connections: settings.connectionsPerAddress),
            context.shared)
        refresher = DescriptionRefresher(settings.descriptions, context)
        listening = ServiceListening(
            try ServiceListening.contexts(
                of: settings.listeners, connections: settings.server.connections, resources.library),
            settings: settings.server, shutdownTimeout: settings.shutdownTimeout, loop: resources.loop,
            pool: resources.pool, application: application)
    }

    func begin() { refresher.begin() }

    func stopUpkeep() { refresher.stop() }

    func renew(_ identity: StoreIdentity) throws(CryptographyError) { try enforcement.renew(identity) }
}
