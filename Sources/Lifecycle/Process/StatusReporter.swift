internal import Administration
internal import Enrolment
internal import EventLoop
internal import Federation
internal import Gateway
internal import GatewayConfiguration
internal import Glibc
internal import Policy
internal import Registry
internal import TLS
internal import Telemetry
internal import Upstream
internal import Vocabulary

/// What operators and their tools see: health, metrics, status and decisions.
final class StatusReporter {
    private let generations: Generations
    private let threads: ServingThreads
    private let restart: Restart
    private let names: NameResolution
    private let memory: MemoryWatch
    private let isSandboxed: Bool
    /// Whether the process stops.
    private let isStopping: () -> Bool
    private let snapshots: SnapshotRounds
    private let decisions: DecisionFeed
    /// Nil without a registry.
    private let tally: DeviceTally?
    private let startedAt = WallClock.seconds
    private var observed = ObservationHistory<ObservedRequests>()
    private var policies = ObservationHistory<PolicyTallies>()
    private var historian: LoopTimer?

    init(
        _ generations: Generations, _ threads: ServingThreads, _ restart: Restart, _ names: NameResolution,
        _ memory: MemoryWatch, isSandboxed: Bool, loop: Loop, isStopping: @escaping () -> Bool
    ) {
        self.generations = generations
        self.threads = threads
        self.restart = restart
        self.names = names
        self.memory = memory
        self.isSandboxed = isSandboxed
        self.isStopping = isStopping
        snapshots = SnapshotRounds(loop: loop, workers: threads.workers)
        decisions = DecisionFeed(loop: loop, workers: threads.workers)
        tally = (generations.served.enforcement?.registry).flatMap { try? DeviceTally($0, loop: loop) }
        historian = LoopTimer(loop: loop, interval: .seconds(60), repeats: true) { [unowned self] in keepHistory() }
    }

    /// Keeps what was counted of policies, and of routes that are not enforced on every device.
    private func keepHistory() {
        guard generations.served.blueprint.routes.contains(where: { $0.isObserved || $0.policy != nil }) else { return }
        snapshots.collect { [unowned self] latest, _ in
            let minute = Instant.now.nanoseconds / 60_000_000_000
            observed.take(latest.mapValues(\.counts.observedRows))
            observed.keep(at: minute)
            policies.take(latest.mapValues(\.counts.policyTallies))
            policies.keep(at: minute)
        }
    }

    /// The table of these routes.
    private func observedRoutes(_ latest: [Int: WorkerSnapshot]) -> [StatusDocument.Observed]? {
        let routes = generations.served.blueprint.routes.filter(\.isObserved)
        guard !routes.isEmpty else { return nil }
        observed.take(latest.mapValues(\.counts.observedRows))
        let (hour, day) = (observed.lastHour, observed.lastDay)
        return routes.flatMap { route in
            day.keys.filter { $0.route == route.name }
                .sorted { ($0.app, $0.version) < ($1.app, $1.version) }
                .map { StatusDocument.Observed($0, percent: route.enforcedPercent, hour[$0], day[$0]) }
        }
    }

    /// The table of policies' decisions.
    private func policyDecisions(_ latest: [Int: WorkerSnapshot]) -> [StatusDocument.Policy]? {
        guard generations.served.blueprint.routes.contains(where: { $0.policy != nil }) else { return nil }
        policies.take(latest.mapValues(\.counts.policyTallies))
        let (hour, day) = (policies.lastHour, policies.lastDay)
        return day.keys.sorted { ($0.policy, $1.isSimulated ? 1 : 0) < ($1.policy, $0.isSimulated ? 1 : 0) }
            .map { key in
                StatusDocument.Policy(
                    policy: key.policy, simulated: key.isSimulated, lastHour: StatusDocument.Policy.Span(hour[key]),
                    lastDay: StatusDocument.Policy.Span(day[key]))
            }
    }

    /// Receives a worker's counts.
    func received(_ snapshot: WorkerSnapshot, from worker: Int) { snapshots.received(snapshot, from: worker) }

    /// Receives a worker's latest decisions.
    func received(_ batch: RecentDecisions.Batch, from worker: Int) { decisions.received(batch, from: worker) }

    /// Called when a worker has ended: it will not answer.
    func ended(_ worker: Int) {
        snapshots.ended(worker)
        decisions.ended(worker)
    }

    var endpoints: [AdministrationEndpoint] { [metrics, status, recentDecisions] + health }

    /// Why this gateway should get no new connections; empty if it is ready.
    private var obstacles: [String] {
        if isStopping() { return ["the gateway is stopping"] }
        return threads.starting.sorted().map {
            "\(ServingThreads.Service(rawValue: $0)?.name ?? "worker \($0)") does not serve yet"
        }
    }

    /// `GET /health/live`: the main thread runs. `GET /health/ready`: the rules, keys and authorities of the
    /// generation are loaded, and every worker listens.
    ///
    /// An unavailable store does not affect readiness: routes without a registry continue to work, and other gateways
    /// share the store.
    private var health: [AdministrationEndpoint] {
        [
            AdministrationEndpoint(.get, "/health/live", level: .health) { _, reply throws(AdministrationFault) in
                reply.send(AdministrationResponse(200, contentType: "text/plain", Array("live\n".utf8)))
            },
            AdministrationEndpoint(.get, "/health/ready", level: .health) {
                [unowned self] request, reply throws(AdministrationFault) in
                let obstacles = obstacles
                // Clients without credentials do not learn the reason.
                let reasons = request.level == .health ? ["not ready"] : obstacles
                let text = obstacles.isEmpty ? "ready\n" : reasons.map { "\($0)\n" }.joined()
                reply.send(
                    AdministrationResponse(obstacles.isEmpty ? 200 : 503, contentType: "text/plain", Array(text.utf8)))
            },
        ]
    }

    /// `GET /metrics`, for Prometheus.
    private var metrics: AdministrationEndpoint {
        AdministrationEndpoint(.get, "/metrics", level: .metrics) {
            [unowned self] _, reply throws(AdministrationFault) in
            snapshots.collect { [unowned self] latest, answered in
                var families = WorkerFamilies(latest, answered: answered).all + ownFamilies
                if let exporter = generations.served.exporter {
                    families += ProcessFamilies.spans(
                        exporter.counts, waiting: latest.values.reduce(0) { $0 + $1.spanBytes })
                }
                families += ProcessFigures.families(startedAt: startedAt) + memory.families
                reply.send(
                    AdministrationResponse(200, contentType: MetricsText.contentType, MetricsText.encode(families)))
            }
        }
    }

    /// `GET /status`, for people.
    private var status: AdministrationEndpoint {
        AdministrationEndpoint(.get, "/status") { [unowned self] _, reply throws(AdministrationFault) in
            snapshots.collect { [unowned self] latest, answered in
                guard let tally else {
                    return reply.send(AdministrationResponse(json: document(latest, answered, nil)))
                }
                tally.collect { [unowned self] devices in
                    reply.send(AdministrationResponse(json: document(latest, answered, devices)))
                }
            }
        }
    }

    /// `GET /decisions`, for pages.
    private var recentDecisions: AdministrationEndpoint {
        .decisions { [unowned self] after, completion in
            let running = threads.workers.running
            decisions.collect(after: after) { [unowned self] page, answered in
                completion(
                    DecisionAnswer(
                        run: "\(getpid())-\(startedAt)", generation: generations.served.number,
                        ready: obstacles.isEmpty,
                        silentWorkers: running.subtracting(answered).sorted(), page: page))
            }
        }
    }

    private func document(
        _ latest: [Int: WorkerSnapshot], _ answered: Set<Int>, _ devices: DeviceCount?
    ) -> StatusDocument {
        let order = generations.served
        let blueprint = order.blueprint
        let lastReload = generations.reloads.last.map { last in
            switch last.outcome {
            case .done: StatusDocument.Reload(succeeded: true, at: last.at, reason: nil)
            case .failed(let reason):
                StatusDocument.Reload(succeeded: false, at: last.at, reason: ReloadState.brief(reason))
            }
        }
        let failedUpgrade = restart.lastFailure.map {
            StatusDocument.Failure(at: $0.at, reason: ReloadState.brief($0.reason))
        }
        let registry = order.enforcement.map { _, registry in
            let (metrics, trouble) = (registry.metrics, registry.trouble)
            return StatusDocument.Registry(
                available: trouble == nil, countersCommitted: metrics.counters, countersWaiting: metrics.waiting,
                journalComplete: registry.isJournalComplete, epochChangedAt: registry.epochChangedAt,
                devices: devices.map {
                    StatusDocument.Devices(active: $0.active, pending: $0.pending, revoked: $0.revoked)
                }, unavailableSince: trouble?.since, reason: trouble.map { ReloadState.brief($0.reason) })
        }
        let upstreams = WorkerSnapshot.Upstream.sum(of: Array(latest.values))
        return StatusDocument(
            version: GatewayVersion.text, process: Int(getpid()), startedAt: startedAt, obstacles: obstacles,
            generation: order.number, lastReload: lastReload, failedUpgrade: failedUpgrade,
            workers: latest.sorted { $0.key < $1.key }.map { number, snapshot in
                StatusDocument.Worker(
                    worker: number, up: answered.contains(number), generation: snapshot.generation,
                    connections: snapshot.connections, retiredGenerations: snapshot.retiredGenerations)
            },
            listeners: blueprint.listeners.map(\.name),
            protocols: blueprint.listeners.map { StatusDocument.Protocols($0.name, $0.protocols) }
                + (blueprint.enrolment.map { enrolment in
                    enrolment.addresses.map { StatusDocument.Protocols($0.name, enrolment.protocols) }
                } ?? [])
                + (blueprint.federation.map { [StatusDocument.Protocols($0.name, $0.protocols)] } ?? []),
            hosts: blueprint.listeners.flatMap { listener in
                listener.hosts.map { StatusDocument.Host(listener: listener.name, names: $0.names.map(\.text)) }
            },
            enrolment: blueprint.enrolment.map {
                StatusDocument.Enrolment(
                    listener: $0.name, devicesListener: $0.addresses.dropFirst().first?.name, admission: $0.admission,
                    receipts: threads.enrolment?.receipts.map(StatusDocument.Receipts.init),
                    statusList: threads.enrolment?.statusList.map(StatusDocument.FetchedContent.init),
                    issuerKeys: threads.enrolment?.issuerKeys.map(StatusDocument.FetchedContent.init))
            },
            federation: blueprint.federation.map {
                let metrics = threads.federation?.metrics
                return StatusDocument.Federation(
                    listener: $0.name, url: $0.url, services: metrics?.services ?? 0,
                    described: metrics?.described ?? 0)
            },
            upstreams: upstreams.map { upstream in
                let settings = blueprint.upstreams.first { $0.name == upstream.name }
                return StatusDocument.Upstream(upstream, speaks: settings?.speaks.name)
            },
            certificates: blueprint.certificates.map {
                StatusDocument.Certificate(
                    listener: $0.listener, upstream: $0.upstream, host: $0.host, role: $0.role.rawValue,
                    subject: $0.subject,
                    expiresAt: $0.notAfter)
            },
            revocationLists: blueprint.listeners.flatMap { listener in
                listener.allClients.flatMap { host, clients in
                    clients.revocationLists.map {
                        StatusDocument.Statement(
                            listener: listener.name, host: host, of: $0.issuer, thisUpdate: $0.thisUpdate,
                            nextUpdate: $0.nextUpdate, now: WallClock.seconds)
                    }
                }
            },
            ocspResponses: blueprint.staples.map {
                StatusDocument.Statement(
                    listener: $0.listener, host: $0.host, of: $0.response.subject, nextUpdate: $0.response.nextUpdate,
                    now: WallClock.seconds)
            },
            apps: blueprint.apps.map {
                StatusDocument.App(
                    id: $0.id.description, environment: $0.environment.rawValue, counter: $0.counters.description)
            }, observedRoutes: observedRoutes(latest), policies: policyDecisions(latest),
            registry: registry)
    }

    /// Metrics that workers do not count.
    private var ownFamilies: [MetricFamily] {
        let order = generations.served
        var families = ProcessFamilies.build + ProcessFamilies.certificates(of: order.blueprint)
        families += ProcessFamilies.revocationLists(of: order.blueprint)
        families += ProcessFamilies.staples(of: order.blueprint)
        families += ProcessFamilies.apps(of: order.blueprint) + ProcessFamilies.enforcement(of: order.blueprint)
        families += ProcessFamilies.names(names.book)
        families += ProcessFamilies.reloads(generations.reloads, generation: order.number)
        families.append(
            MetricFamily(
                .gauge, "attestgate_sandboxed",
                "1 if the process has no access to files outside the configuration.", isSandboxed ? 1 : 0))
        families.append(
            MetricFamily(
                .gauge, "attestgate_ready", "1 if the gateway accepts new connections, as in /health/ready.",
                obstacles.isEmpty ? 1 : 0))
        families.append(
            MetricFamily(
                .gauge, "attestgate_sessions", "TLS sessions stored for resumption, including expired ones.",
                order.sessions.count))
        if let administration = generations.administration {
            families.append(ProcessFamilies.refusals(administration.refusals))
        }
        families.append(
            MetricFamily(
                .counter, "attestgate_error_log_dropped_total",
                "Lines for standard error, including the audit log, that could not be written.",
                order.errors.droppedInAll))
        if let log = order.log {
            families.append(
                MetricFamily(
                    .counter, "attestgate_log_dropped_total",
                    "Blocks of access log lines, 128 KiB or so each, that could not be written.", log.droppedInAll))
        }
        if let enrolment = threads.enrolment { families += enrolment.families }
        if let federation = threads.federation { families += federation.families }
        if let registry = order.enforcement?.registry { families += ProcessFamilies.registry(registry) }
        return families
    }
}

extension StatusDocument.Upstream {
    fileprivate init(_ upstream: WorkerSnapshot.Upstream, speaks: String?) {
        self.init(
            name: upstream.name, busy: upstream.busy, idle: upstream.idle, waiting: upstream.waiting,
            servers: upstream.servers.map { server in
                let counted = zip(ServerCondition.allCases, server.standings).filter { $1 > 0 }
                return StatusDocument.Server(
                    name: server.name, busy: server.busy, idle: server.idle,
                    states: Dictionary(uniqueKeysWithValues: counted.map { ($0.name, $1) }),
                    lastFailure: server.lastFailure.map {
                        StatusDocument.Failure(at: $0.at, reason: ReloadState.brief($0.failure.text))
                    })
            }, speaks: speaks)
    }
}

extension StatusDocument.Protocols {
    fileprivate init(_ listener: String, _ protocols: [ApplicationProtocol]) {
        self.init(listener: listener, names: protocols.map(\.name))
    }
}

extension StatusDocument.FetchedContent {
    fileprivate init(_ metrics: FetchMetrics) {
        self.init(
            source: metrics.source, state: metrics.state.rawValue, entries: metrics.entries, ageSeconds: metrics.age,
            failure: metrics.failure)
    }
}

extension StatusDocument.Receipts {
    fileprivate init(_ metrics: ReceiptMetrics) {
        self.init(
            calls: metrics.callCount, refreshed: metrics.refreshedCount, paused: metrics.pauseReason,
            // Every app is listed once.
            aboveCeiling: Dictionary(uniqueKeysWithValues: metrics.aboveCeiling.map { ($0.app, $0.count) }),
            oldestOverdueSeconds: metrics.oldestOverdue)
    }
}

extension StatusDocument.Observed {
    fileprivate init(
        _ key: ObservedRequests.Key, percent: Int, _ hour: ObservedRequests.Row?, _ day: ObservedRequests.Row?
    ) {
        self.init(
            route: key.route, enforce: EnforcedPercentage(percent: percent).description,
            app: key.app.isEmpty ? nil : key.app, version: key.version.isEmpty ? nil : key.version,
            lastHour: Span(hour), lastDay: Span(day))
    }
}

extension StatusDocument.Policy.Span {
    fileprivate init(_ row: PolicyTallies.Row?) {
        let violations = (row?.violations ?? [:]).map { (String(describing: $0.key.row.code), $0.value) }
        self.init(
            decisions: row?.decisions ?? 0, denied: row?.denied ?? 0, unavailable: row?.unavailable ?? 0,
            // Codes are unique.
            violations: Dictionary(uniqueKeysWithValues: violations))
    }
}

extension StatusDocument.Observed.Span {
    fileprivate init(_ row: ObservedRequests.Row?) {
        let denials = (row?.denials ?? [:]).map { (String(describing: $0.key.row.code), $0.value) }
        // Several denials have one code.
        self.init(
            requests: row?.requests ?? 0, passed: row?.passed ?? 0,
            denials: Dictionary(denials, uniquingKeysWith: +))
    }
}
