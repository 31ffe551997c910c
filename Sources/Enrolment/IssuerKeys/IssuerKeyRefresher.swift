internal import Attestation
internal import Cryptography
internal import EventLoop
internal import HTTP
internal import Upstream

/// The refresher of the keys of admission tokens. It fetches them from the issuer, whose metadata may say where they
/// are. `FetchSchedule` decides when, and a token with an unknown `kid` hurries it.
///
/// It belongs to one generation. The keys belong to all generations with the same source.
final class IssuerKeyRefresher {
    private enum State {
        case stopped
        /// The names of the service are being resolved.
        case starting(LoopTimer)
        case waiting(LoopTimer)
        /// The name of another host that the metadata names is being resolved.
        case finding(LoopTimer)
        case calling(OutboundCall, LoopTimer)
    }

    /// A host that the metadata names, other than the issuer's.
    private struct OtherHost {
        let origin: String
        let services: OutboundServices
    }

    private let settings: IssuerKeySettings
    private let context: EnrolmentContext
    private let services: OutboundServices
    private let report: FetchReport
    private var otherHost: OtherHost?
    private var schedule: FetchSchedule
    private var state = State.stopped

    /// The interval at which time and demand are looked at.
    private static let interval = TimeSpan.seconds(1)

    init(_ settings: IssuerKeySettings, _ context: EnrolmentContext) throws(EnrolmentStartError) {
        self.settings = settings
        self.context = context
        report = FetchReport(
            .issuerKeys, \.issuerKeys,
            FetchReport.Words(
                missing: "there are no keys, so no admission token is accepted",
                stale: "no admission token is accepted until the keys are confirmed",
                current: "admission tokens are accepted again"),
            context)
        schedule = FetchSchedule(
            FetchSchedule.Rules(
                interval: settings.interval, retry: settings.retry, staleAfter: settings.staleAfter))
        do throws(CryptographyError) {
            services = try Self.services(settings.service.upstream, settings, context)
        } catch {
            throw EnrolmentStartError("token: \(error)")
        }
    }

    private static func services(
        _ upstream: UpstreamSettings, _ settings: IssuerKeySettings, _ context: EnrolmentContext
    ) throws(CryptographyError) -> OutboundServices {
        let notify = context.notify
        return try OutboundServices(
            [upstream], resolver: settings.service.resolver, forbidden: settings.service.forbidden, loop: context.loop,
            buffers: context.pool, library: context.library
        ) { notify(EnrolmentNotice(.issuerKeys, $0)) }
    }

    private var now: Int64 { WallClock.seconds }
    private var kept: IssuerKeyRecord.Kept? { context.shared.issuerKeys.kept }

    // MARK: - Start and stop

    /// Begins. The keys of the previous generation count at once if they have the same source.
    func begin() {
        if context.shared.issuerKeys.source != settings.service.url {
            context.shared.issuerKeys = IssuerKeyRecord(source: settings.service.url)
        }
        context.shared.issuerKeys.staleAfter = settings.staleAfter
        report.begin(source: settings.service.url)
        schedule.begin(age: context.shared.issuerKeys.age(at: now), at: context.loop.now)
        // In a separate event. The previous refresher, which this one replaces, has then stopped.
        state = .starting(
            LoopTimer(loop: context.loop, startsIn: TimeSpan(nanoseconds: 0)) { [unowned self] in
                services.find { [weak self] in self?.ready() }
            })
        publish()
    }

    private func ready() {
        guard case .starting = state else { return }
        state = .waiting(
            LoopTimer(loop: context.loop, interval: Self.interval, repeats: true) { [unowned self] in turn() })
        turn()
    }

    func stop() {
        if case .calling(let call, _) = state { call.stop() }
        state = .stopped
        services.leave()
        otherHost?.services.leave()
    }

    // MARK: - Time

    private func turn() {
        defer { publish() }
        guard case .waiting(let ticker) = state else { return }
        let record = context.shared.issuerKeys
        if record.isWanted, record.mayFetch(at: now) { schedule.hurry(at: context.loop.now) }
        guard schedule.due <= context.loop.now else { return }
        switch settings.content {
        case .keys: fetchKeys(settings.service.path, host: settings.service.host, on: services, ticker)
        case .metadata(let issuer): fetchMetadata(of: issuer, ticker)
        }
    }

    private func publish() {
        let record = context.shared.issuerKeys
        report.publish(
            age: record.age(at: now), isStale: record.isStale(at: now), entries: record.kept?.keys.keys.count ?? 0)
    }

    // MARK: - Calls

    private func call(
        _ path: String, host: String, on services: OutboundServices, _ conditions: [(name: String, value: String)],
        _ ticker: LoopTimer, then conclude: @escaping (FetchAnswer) -> Void
    ) {
        let request = OutboundRequest(
            get: path, host: host,
            fields: [("Accept", "application/json"), ("Accept-Encoding", "identity")] + conditions)
        let call = OutboundCall(
            request, on: services.pools[0], loop: context.loop, contentLimit: JWKSet.lengthLimit, isRepeatable: true
        ) { [weak self] result in
            guard let self, case .calling(_, let ticker) = state else { return }
            state = .waiting(ticker)
            conclude(FetchAnswer(result, isConditional: !conditions.isEmpty))
        }
        state = .calling(call, ticker)
        call.start(timeout: settings.service.timeout)
    }

    private func fetchMetadata(of issuer: String, _ ticker: LoopTimer) {
        let service = settings.service
        call(service.path, host: service.host, on: services, [], ticker) { [unowned self] answer in
            switch answer {
            case .content(let answer):
                do throws(IssuerMetadata.Fault) {
                    followMetadata(to: try IssuerMetadata.location(in: answer.content, issuer: issuer), ticker)
                } catch {
                    conclude(.refused, .failed(retryAfter: nil), because: "\(service.host): \(error.reason)")
                }
            case .tooLong, .unchanged:
                conclude(.refused, .failed(retryAfter: nil), because: "\(service.host): the metadata is too long")
            case .failed(let reason, let retryAfter):
                conclude(.failed, .failed(retryAfter: retryAfter), because: "\(service.host): \(reason)")
            }
        }
    }

    /// Fetches the keys from where the metadata says they are: the same host, or another host that has a name.
    private func followMetadata(to location: SecureURL, _ ticker: LoopTimer) {
        if location.origin == SecureURL(settings.service.url)?.origin {
            return fetchKeys(location.rest, host: settings.service.host, on: services, ticker)
        }
        do throws(CryptographyError) {
            guard let other = try services(of: location) else {
                return conclude(
                    .refused, .failed(retryAfter: nil), because: "jwks_uri is at an address instead of a name")
            }
            state = .finding(ticker)
            other.find { [weak self, unowned other] in
                guard let self, case .finding(let ticker) = state else { return }
                fetchKeys(location.rest, host: location.origin, on: other, ticker)
            }
        } catch {
            conclude(.failed, .failed(retryAfter: nil), because: "\(error)")
        }
    }

    /// Returns the connections to another host.
    ///
    /// - Returns: nil for an address: only names are compared with the gateway's own addresses.
    private func services(of location: SecureURL) throws(CryptographyError) -> OutboundServices? {
        if let otherHost, otherHost.origin == location.origin { return otherHost.services }
        guard let host = location.namedHost else { return nil }
        var upstream = settings.service.upstream
        upstream.servers = [
            UpstreamSettings.Server(NamedServer(host: host.name, port: host.port), certificateName: host.name)
        ]
        let services = try Self.services(upstream, settings, context)
        otherHost?.services.leave()
        otherHost = OtherHost(origin: location.origin, services: services)
        return services
    }

    private func fetchKeys(_ path: String, host: String, on services: OutboundServices, _ ticker: LoopTimer) {
        // Validators hold for one URL, and the metadata may name another each time.
        let conditions: [(name: String, value: String)] =
            if case .keys = settings.content { kept?.validators.conditions ?? [] } else { [] }
        call(path, host: host, on: services, conditions, ticker) { [unowned self] answer in
            switch answer {
            case .content(let answer): keep(answer, from: host)
            case .unchanged(let maxAge):
                context.shared.issuerKeys.kept?.confirmedAt = now
                conclude(.unchanged, .confirmed(maxAge: maxAge))
            case .tooLong:
                conclude(
                    .refused, .failed(retryAfter: nil),
                    because: "\(host): the keys are longer than \(JWKSet.lengthLimit) bytes")
            case .failed(let reason, let retryAfter):
                conclude(.failed, .failed(retryAfter: retryAfter), because: "\(host): \(reason)")
            }
        }
    }

    private func keep(_ answer: OutboundAnswer, from host: String) {
        let outcome = FetchSchedule.Outcome.confirmed(maxAge: answer.maxAge)
        guard answer.content != kept?.text else {
            context.shared.issuerKeys.kept?.confirmedAt = now
            context.shared.issuerKeys.kept?.validators = answer.validators
            return conclude(.unchanged, outcome)
        }
        do throws(JWKSetFault) {
            let keys = try JWKSet(answer.content, context.library)
            context.shared.issuerKeys.kept = IssuerKeyRecord.Kept(
                keys: keys, text: answer.content, confirmedAt: now, validators: answer.validators)
            conclude(.updated, outcome, [LogFact("keys", keys.keys.count)])
        } catch {
            conclude(.refused, .failed(retryAfter: nil), because: "\(host): \(error.reason)")
        }
    }

    // MARK: - Results

    private func conclude(
        _ result: FetchMetrics.Result, _ outcome: FetchSchedule.Outcome, _ details: [LogFact] = [],
        because reason: String? = nil
    ) {
        context.shared.issuerKeys.fetchedAt = now
        context.shared.issuerKeys.isWanted = false
        schedule.ended(outcome, at: context.loop.now)
        report.ended(result, details, because: reason, isMissing: kept == nil)
        publish()
    }
}
