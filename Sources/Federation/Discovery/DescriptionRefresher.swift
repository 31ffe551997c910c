internal import Cryptography
internal import Enrolment
public import EventLoop
internal import HTTP
internal import Registry
public import Upstream

/// How the RSD2 documents of services are fetched. Plain values; files were read before.
public struct DescriptionSettings: Sendable {
    /// The upstream of every service, except its server.
    public var upstream: UpstreamSettings
    public var resolver: ResolverSettings
    /// Addresses to which no service's name may resolve.
    public var forbidden: ForbiddenAddresses
    /// The time for a call.
    public var timeout: TimeSpan
    /// The time between two fetches of a document in seconds.
    public var interval: Int64
    /// The time from a failed fetch to the next in seconds.
    public var retry: Int64

    public init(
        upstream: UpstreamSettings, resolver: ResolverSettings, forbidden: ForbiddenAddresses, timeout: TimeSpan,
        interval: Int64, retry: Int64
    ) {
        self.upstream = upstream
        self.resolver = resolver
        self.forbidden = forbidden
        self.timeout = timeout
        self.interval = interval
        self.retry = retry
    }
}

/// The refresher of the services' RSD2 documents: it asks the registry which services are approved, and fetches their
/// documents one after the other. Redirects are not followed.
///
/// It belongs to one generation. The documents belong to all generations.
final class DescriptionRefresher {
    private enum State {
        case stopped
        case waiting
        /// The registry is asked for services.
        case listing
        /// The name of a service is being resolved.
        case finding(OutboundServices)
        case calling(OutboundCall, OutboundServices)
    }

    private let settings: DescriptionSettings
    private let context: FederationContext
    private var schedules: [String: FetchSchedule] = [:]
    /// When the registry is asked again.
    private var listDue = Instant(nanoseconds: 0)
    private var state = State.stopped
    private var ticker: LoopTimer?

    /// The interval at which time is looked at, and at which the registry is asked.
    private static let interval = TimeSpan.milliseconds(500)
    private static let listInterval = TimeSpan.seconds(2)

    init(_ settings: DescriptionSettings, _ context: FederationContext) {
        self.settings = settings
        self.context = context
    }

    private var loop: Loop { context.resources.loop }

    func begin() {
        state = .waiting
        // In a separate event. The previous refresher, which this one replaces, has then stopped.
        ticker = LoopTimer(loop: loop, interval: Self.interval, repeats: true) { [unowned self] in turn() }
    }

    func stop() {
        if case .calling(let call, let services) = state {
            call.stop()
            services.leave()
        }
        if case .finding(let services) = state { services.leave() }
        state = .stopped
        ticker = nil
    }

    // MARK: - Time

    private func turn() {
        guard case .waiting = state else { return }
        if listDue <= loop.now { return list() }
        let now = loop.now
        let due = schedules.filter { $0.value.due <= now }.min { $0.value.due < $1.value.due }
        guard let id = due?.key, let service = context.shared.directory.entries[id]?.service else { return }
        fetch(service)
    }

    private func list() {
        listDue = loop.now + Self.listInterval
        state = .listing
        let command = RegistryCommand.listServices(after: "", limit: FederationService.limit)
        let isSent = context.resources.registryRequests.send(command) { [weak self] result in
            guard let self, case .listing = state else { return }
            state = .waiting
            // After a failure the earlier services stay.
            guard case .success(.services(let services)) = result else { return }
            adopt(services.filter(\.isActive))
        }
        if !isSent { state = .waiting }
    }

    private func adopt(_ services: [FederationService]) {
        context.shared.directory.replace(with: services)
        let rules = FetchSchedule.Rules(
            interval: settings.interval, retry: settings.retry, staleAfter: 24 * settings.interval)
        var next: [String: FetchSchedule] = [:]
        for service in services {
            // A service at another place has lost its description, and is fetched at once.
            let isNew = context.shared.directory.entries[service.id]?.description == nil
            if let known = schedules[service.id], !isNew || known.hasFailed {
                next[service.id] = known
            } else {
                var schedule = FetchSchedule(rules)
                schedule.begin(age: isNew ? nil : 0, at: loop.now)
                next[service.id] = schedule
            }
        }
        schedules = next
        publish()
    }

    private func publish() {
        let entries = context.shared.directory.entries.values
        context.shared.count { metrics in
            metrics.services = entries.count
            metrics.described = entries.count { $0.description != nil }
        }
    }

    // MARK: - Calls

    private func fetch(_ service: FederationService) {
        guard let url = SecureURL(service.descriptionURL), let host = url.namedHost,
            let home = SecureURL(service.url)
        else {
            return conclude(service, .failed(retryAfter: nil), because: "its RSD2 document has no https URL")
        }
        var upstream = settings.upstream
        upstream.servers = [
            UpstreamSettings.Server(NamedServer(host: host.name, port: host.port), certificateName: host.name)
        ]
        let notify = context.resources.notify
        do throws(CryptographyError) {
            let services = try OutboundServices(
                [upstream], resolver: settings.resolver, forbidden: settings.forbidden, loop: loop,
                buffers: context.resources.pool, library: context.resources.library
            ) { notify(EnrolmentNotice(.services, $0)) }
            state = .finding(services)
            services.find { [weak self, unowned services] in
                guard let self, case .finding = state else { return }
                call(service, url, origin: home.origin, services)
            }
        } catch {
            conclude(service, .failed(retryAfter: nil), because: "\(error)")
        }
    }

    private func call(_ service: FederationService, _ url: SecureURL, origin: String, _ services: OutboundServices) {
        let request = OutboundRequest(
            get: url.rest.isEmpty ? "/" : url.rest, host: url.origin,
            fields: [("Accept", "application/json, text/plain"), ("Accept-Encoding", "identity")])
        let call = OutboundCall(
            request, on: services.pools[0], loop: loop, contentLimit: ServiceDescription.lengthLimit,
            isRepeatable: true
        ) { [weak self] result in
            guard let self, case .calling(_, let services) = state else { return }
            services.leave()
            state = .waiting
            take(FetchAnswer(result, isConditional: false), of: service, origin)
        }
        state = .calling(call, services)
        call.start(timeout: settings.timeout)
    }

    private func take(_ answer: FetchAnswer, of service: FederationService, _ origin: String) {
        switch answer {
        case .content(let answer):
            guard Self.isText(answer.contentType) else {
                return conclude(service, .failed(retryAfter: nil), because: "it is neither JSON nor plain text")
            }
            do throws(ServiceDescription.Fault) {
                let description = try ServiceDescription(answer.content, origin: origin)
                context.shared.directory.describe(service.id, description)
                conclude(service, .confirmed(maxAge: answer.maxAge), because: nil)
            } catch {
                // What the service says now is not what was fetched before.
                context.shared.directory.describe(service.id, nil)
                conclude(service, .failed(retryAfter: nil), because: error.reason)
            }
        case .tooLong, .unchanged:
            context.shared.directory.describe(service.id, nil)
            conclude(
                service, .failed(retryAfter: nil), because: "it is longer than \(ServiceDescription.lengthLimit) bytes")
        case .failed(let reason, let retryAfter):
            conclude(service, .failed(retryAfter: retryAfter), because: reason)
        }
    }

    private static func isText(_ type: String?) -> Bool {
        let name = type?.split(separator: ";").first?.lowercased()
        return name == "application/json" || name == "text/plain"
    }

    private func conclude(_ service: FederationService, _ outcome: FetchSchedule.Outcome, because reason: String?) {
        if case .finding(let services) = state {
            services.leave()
            state = .waiting
        }
        schedules[service.id]?.ended(outcome, at: loop.now)
        let facts = [LogFact("service", service.id), LogFact("outcome", reason == nil ? "fetched" : "refused")]
        context.resources.notify(
            EnrolmentNotice(.services, reason == nil ? .info : .warning, facts, because: reason))
        publish()
    }
}
