internal import HTTP
internal import TLS
package import Telemetry
internal import Upstream
internal import Vocabulary

/// The metrics of the workers: sums, and values by worker where one worker alone may have a problem.
package struct WorkerFamilies {
    let workers: [(number: Int, snapshot: WorkerSnapshot)]
    private let answered: Set<Int>

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - latest: The last snapshot of each worker.
    ///   - answered: The workers whose snapshot is current.
    package init(_ latest: [Int: WorkerSnapshot], answered: Set<Int>) {
        workers = latest.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.answered = answered
    }

    package var all: [MetricFamily] {
        [
            requests, answers, routeDurations, denials, routeDenials, appDenials, observed, wouldDeny, policyDecisions,
            policyViolations, rateExcesses, withoutRoom, proxyHeaders, handshakes, keyExchanges, durations,
        ]
            + perWorker + protocols + upstreams + tunnels + [buffers, acceptPauses]
    }

    private var requests: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_requests_total",
            """
            Completed requests, by route and decision; abandoned: the client disconnected before the decision.
            """)
        let decisions = Decision.allCases.map { String(describing: $0.name) } + ["abandoned"]
        let sums = sum(by: \.routes, columns: WorkerCounts.decisions) { counts, place, column in
            counts.requests[place * WorkerCounts.decisions + column]
        }
        for (route, columns) in sums {
            for (decision, count) in zip(decisions, columns) {
                family.add(count, ["route": route, "decision": decision])
            }
        }
        return family
    }

    private var answers: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_responses_total",
            "Completed requests, by route and class of the status; none: the client disconnected before a response.")
        let classes = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"]
        let sums = sum(by: \.routes, columns: WorkerCounts.statusClasses) { counts, place, column in
            counts.answers[place * WorkerCounts.statusClasses + column]
        }
        for (route, columns) in sums {
            for (word, count) in zip(classes, columns) { family.add(count, ["route": route, "status": word]) }
        }
        return family
    }

    /// Routes without a request have no samples, because a histogram has many.
    private var routeDurations: MetricFamily {
        var family = MetricFamily(
            .histogram, "attestgate_route_duration_seconds",
            "Duration of requests from the complete head to the last byte of the response, by route.")
        var sums: [String: LatencyHistogram] = [:]
        for (_, snapshot) in workers {
            for (name, histogram) in zip(snapshot.counts.routes.names, snapshot.counts.durations) {
                sums[name, default: LatencyHistogram()].add(histogram)
            }
        }
        for (route, histogram) in sums.sorted(by: { $0.key < $1.key })
        where histogram.buckets.contains(where: { $0 > 0 }) {
            family.add(histogram, ["route": route])
        }
        return family
    }

    private var routeDenials: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_route_denials_total", "Denied requests, by route and denial code.")
        addDenials(by: \.routes, \.routeDenials) { family.add($2, ["route": $0, "code": $1]) }
        return family
    }

    private var appDenials: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_app_denials_total",
            "Denied requests, by app of the device and denial code; _none: no device is known.")
        addDenials(by: \.apps, \.appDenials) { family.add($2, ["app": $0, "code": $1]) }
        return family
    }

    /// Adds the sums of denials that occurred. The others have no samples, because names and codes are many.
    private func addDenials(
        by names: KeyPath<WorkerCounts, SeriesNames>, _ counts: KeyPath<WorkerCounts, [UInt64]>,
        _ add: (_ name: String, _ code: String, _ count: UInt64) -> Void
    ) {
        let sums = sum(by: names, columns: Denial.allCases.count) { worker, place, column in
            worker[keyPath: counts][place * Denial.allCases.count + column]
        }
        for (name, columns) in sums {
            for (code, count) in Self.byCode(columns, of: Denial.allCases) where count > 0 { add(name, code, count) }
        }
    }

    private var denials: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_denials_total",
            "Denied requests and connections, by denial code.")
        for (code, count) in byCode(\.denials, of: Denial.allCases) { family.add(count, ["code": code]) }
        return family
    }

    private var observed: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_observed_requests_total",
            "Requests of routes that are not enforced on all devices, by route.")
        for (route, counts) in sum(by: \.routes, columns: 1, { counts, place, _ in counts.observed[place] }) {
            if counts[0] > 0 { family.add(counts[0], ["route": route]) }
        }
        return family
    }

    private var wouldDeny: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_would_deny_total",
            "Forwarded requests that an enforced route would have refused, by route and denial code.")
        addDenials(by: \.routes, \.wouldDeny) { family.add($2, ["route": $0, "code": $1]) }
        return family
    }

    private var policyDecisions: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_policy_decisions_total",
            """
            Decisions of policies about requests, by policy; simulated ones have no effect; unavailable: its decision \
            point gave none.
            """)
        let outcomes = PolicyOutcome.allCases
        addPolicies(outcomes.count, \.policyDecisions) { policy, isSimulated, column, count in
            let decision = String(describing: outcomes[column].name)
            family.add(count, ["policy": policy, "decision": decision, "simulated": isSimulated])
        }
        return family
    }

    private var policyViolations: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_policy_violations_total",
            "Violations that the conditions of policies have found, by policy and code.")
        addPolicies(Violation.allCases.count, \.policyViolations) { policy, isSimulated, column, count in
            let code = String(describing: Violation.allCases[column].row.code)
            family.add(count, ["policy": policy, "violation": code, "simulated": isSimulated])
        }
        return family
    }

    /// Adds the sums of policies that occurred, separately for simulated ones.
    private func addPolicies(
        _ columns: Int, _ counts: KeyPath<WorkerCounts, [UInt64]>,
        _ add: (_ policy: String, _ isSimulated: String, _ column: Int, _ count: UInt64) -> Void
    ) {
        let sums = sum(by: \.policies, columns: 2 * columns) { worker, place, column in
            worker[keyPath: counts][place * 2 * columns + column]
        }
        for (policy, values) in sums {
            for (column, count) in values.enumerated() where count > 0 {
                add(policy, column < columns ? "false" : "true", column % columns, count)
            }
        }
    }

    private var rateExcesses: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_rate_limited_total", "Requests refused by a rate limit, by the kind of limit.")
        for (place, scope) in RateScope.allCases.enumerated() {
            family.add(workers.reduce(0) { $0 + $1.snapshot.counts.rateExcesses[place] }, ["rate": scope.rawValue])
        }
        return family
    }

    private var proxyHeaders: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_proxy_headers_total",
            """
            PROXY headers of trusted proxies: client (has a client address), own (the proxy's own connection, such \
            as a health check) or refused.
            """)
        family.add(total(\.proxyHeaders.withSource), ["result": "client"])
        family.add(total(\.proxyHeaders.withoutSource), ["result": "own"])
        family.add(
            workers.reduce(0) { $0 + $1.snapshot.counts.denials[Int(Denial.proxyHeaderRefused.rawValue)] },
            ["result": "refused"])
        return family
    }

    private var withoutRoom: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_connections_limited_total",
            "Connections closed for want of room, by the limit that was reached.")
        for limit in ReachedLimit.allCases {
            let count = workers.reduce(0) { $0 + $1.snapshot.counts.withoutRoom[limit.rawValue] }
            family.add(count, ["limit": String(describing: limit)])
        }
        return family
    }

    private var handshakes: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_handshakes_total",
            """
            Completed TLS handshakes: full, resumed, abandoned by the client, or refused, by denial code.
            """)
        family.add(total(\.fullHandshakes), ["result": "full"])
        family.add(total(\.resumedHandshakes), ["result": "resumed"])
        family.add(total(\.abandonedHandshakes), ["result": "abandoned"])
        for (code, count) in byCode(\.refusedHandshakes, of: Denial.allCases.filter(\.canEndHandshake)) {
            family.add(count, ["result": code])
        }
        return family
    }

    private var keyExchanges: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_key_exchanges_total",
            "Completed TLS handshakes with clients that exchanged keys, by group.")
        for group in KeyExchange.allCases {
            family.add(
                workers.reduce(0) { $0 + $1.snapshot.counts.keyExchanges[group.rawValue] },
                ["group": String(describing: group.name)])
        }
        return family
    }

    private var durations: MetricFamily {
        var family = MetricFamily(
            .histogram, "attestgate_request_duration_seconds",
            "Duration of requests, in total and by phase.")
        let phases: [(String, KeyPath<WorkerCounts, LatencyHistogram>)] = [
            ("total", \.total), ("handshake", \.handshake), ("verification", \.verification), ("commit", \.commit),
            ("upstream", \.upstream), ("upstream_end", \.upstreamEnd),
        ]
        for (phase, path) in phases {
            var sum = LatencyHistogram()
            for worker in workers { sum.add(worker.snapshot.counts[keyPath: path]) }
            family.add(sum, ["phase": phase])
        }
        return family
    }

    private var perWorker: [MetricFamily] {
        var up = MetricFamily(
            .gauge, "attestgate_worker_up", "1 if the worker answered this scrape within a second.")
        var requests = MetricFamily(
            .counter, "attestgate_worker_requests_total", "Completed requests, by worker.")
        var connections = MetricFamily(.gauge, "attestgate_connections", "Open client connections.")
        var accepted = MetricFamily(
            .counter, "attestgate_connections_total", "Client connections with a completed TLS handshake.")
        var chains = MetricFamily(
            .counter, "attestgate_client_chains_total",
            """
            Completed full TLS handshakes: hit if the worker had already verified the client's chain, none without \
            a certificate, else miss.
            """)
        var generation = MetricFamily(
            .gauge, "attestgate_worker_generation", "The configuration generation that the worker serves.")
        var retired = MetricFamily(
            .gauge, "attestgate_worker_retired_generations", "Earlier configuration generations with open connections.")
        var lag = MetricFamily(
            .histogram, "attestgate_loop_lag_seconds",
            "Delay of a timer in the worker's event loop, measured twice a second.")
        for (number, snapshot) in workers {
            let worker = String(number)
            let counts = snapshot.counts
            up.add(answered.contains(number) ? 1 : 0, ["worker": worker])
            requests.add(counts.requests.reduce(0, +), ["worker": worker])
            connections.add(snapshot.connections, ["worker": worker])
            accepted.add(counts.fullHandshakes + counts.resumedHandshakes, ["worker": worker])
            chains.add(counts.knownChains, ["worker": worker, "cache": "hit"])
            chains.add(counts.verifiedChains, ["worker": worker, "cache": "miss"])
            chains.add(counts.anonymousHandshakes, ["worker": worker, "cache": "none"])
            generation.add(snapshot.generation, ["worker": worker])
            retired.add(snapshot.retiredGenerations, ["worker": worker])
            lag.add(counts.loopLag, ["worker": worker])
        }
        return [up, requests, connections, accepted, chains, generation, retired, lag]
    }

    private var buffers: MetricFamily {
        var family = MetricFamily(
            .gauge, "attestgate_buffer_blocks", "Buffers of 32 KiB: in use, or pooled.")
        family.add(workers.reduce(0) { $0 + $1.snapshot.buffersInUse }, ["state": "used"])
        family.add(workers.reduce(0) { $0 + $1.snapshot.buffersIdle }, ["state": "idle"])
        return family
    }

    private var acceptPauses: MetricFamily {
        MetricFamily(
            .counter, "attestgate_accept_pauses_total",
            "Failures to accept a connection for lack of descriptors or memory.", total(\.acceptPauses))
    }

    // MARK: - Sums over workers

    private func total(_ path: KeyPath<WorkerCounts, UInt64>) -> UInt64 {
        workers.reduce(0) { $0 + $1.snapshot.counts[keyPath: path] }
    }

    /// Returns sums over workers by code.
    private func byCode(
        _ path: KeyPath<WorkerCounts, [UInt64]>, of denials: [Denial]
    ) -> [(code: String, count: UInt64)] {
        let counts = Denial.allCases.map { denial in
            workers.reduce(0) { $0 + $1.snapshot.counts[keyPath: path][Int(denial.rawValue)] }
        }
        return Self.byCode(counts, of: denials)
    }

    /// Returns sums by code in the order of the denial table. Several denials may have one code.
    ///
    /// - Parameter counts: By the raw value of the denial.
    private static func byCode(_ counts: [UInt64], of denials: [Denial]) -> [(code: String, count: UInt64)] {
        var sums: [(code: String, count: UInt64)] = []
        for denial in denials {
            let code = String(describing: denial.row.code)
            let count = counts[Int(denial.rawValue)]
            if let place = sums.firstIndex(where: { $0.code == code }) {
                sums[place].count += count
            } else {
                sums.append((code, count))
            }
        }
        return sums
    }

    /// Returns sums by name. Workers differ in the places of names, because a reload may reach them in another order.
    func sum(
        by names: KeyPath<WorkerCounts, SeriesNames>, columns: Int, _ value: (WorkerCounts, Int, Int) -> UInt64
    ) -> [(name: String, columns: [UInt64])] {
        var order: [String] = []
        var sums: [String: [UInt64]] = [:]
        for (_, snapshot) in workers {
            let counts = snapshot.counts
            for (place, name) in counts[keyPath: names].names.enumerated() {
                let row = (0..<columns).map { value(counts, place, $0) }
                if let known = sums[name] {
                    sums[name] = zip(known, row).map(+)
                } else {
                    order.append(name)
                    sums[name] = row
                }
            }
        }
        return order.compactMap { name in
            guard let row = sums[name], !SeriesNames.isReserved(name) || row.contains(where: { $0 > 0 }) else {
                return nil
            }
            return (name, row)
        }
    }
}

/// Metrics of the clients' protocols.
extension WorkerFamilies {
    var protocols: [MetricFamily] {
        var requests = MetricFamily(
            .counter, "attestgate_protocol_requests_total", "Completed requests, by HTTP version.")
        for version in HTTPVersion.allCases {
            requests.add(sum { $0.requestsByVersion[Int(version.rawValue)] }, ["protocol": "\(version.name)"])
        }
        var connections = MetricFamily(
            .gauge, "attestgate_protocol_connections",
            "Open client connections with a completed handshake, by protocol.")
        connections.add(sum { $0.openConnections.http11 }, ["protocol": "HTTP/1.1"])
        connections.add(sum { $0.openConnections.http2 }, ["protocol": "HTTP/2"])
        var streams = MetricFamily(
            .gauge, "attestgate_http2_streams",
            "Requests and WebSockets open on HTTP/2 connections, by worker.")
        for (number, snapshot) in workers { streams.add(snapshot.counts.openStreams, ["worker": String(number)]) }
        var faults = MetricFamily(
            .counter, "attestgate_http2_faults_total",
            "HTTP/2 connections closed because the client violated the protocol or exceeded a rate."
        )
        for kind in HTTP2FaultKind.allCases { faults.add(sum { $0.http2Faults[kind.rawValue] }, ["kind": kind.name]) }
        return [requests, connections, streams, faults]
    }

    private func sum<Count: FixedWidthInteger>(_ count: (WorkerCounts) -> Count) -> Count {
        workers.reduce(0) { $0 + count($1.snapshot.counts) }
    }
}

/// Metrics of upstreams and their servers.
extension WorkerFamilies {
    var upstreams: [MetricFamily] { [responses, failures, retries] + held + ofServers }

    private var responses: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_upstream_responses_total",
            "Response heads received from the upstream, with any status.")
        for (upstream, columns) in sum(by: \.upstreams, columns: 1, { $0.responses[$1 + $2] }) {
            family.add(columns[0], ["upstream": upstream])
        }
        return family
    }

    private var failures: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_upstream_failures_total", "Requests without a complete response from the upstream.")
        let failed = sum(by: \.upstreams, columns: WorkerCounts.failureKinds) { counts, place, column in
            counts.failures[place * WorkerCounts.failureKinds + column]
        }
        for (upstream, columns) in failed {
            for (kind, count) in zip(UpstreamFailure.Kind.allCases, columns) {
                family.add(count, ["upstream": upstream, "kind": kind.name])
            }
        }
        return family
    }

    private var retries: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_upstream_retries_total",
            "Requests retried after their connection closed without a response.")
        for (upstream, columns) in sum(by: \.upstreams, columns: 1, { $0.retries[$1 + $2] }) {
            family.add(columns[0], ["upstream": upstream])
        }
        return family
    }

    /// Connections and requests of the pools.
    private var held: [MetricFamily] {
        var connections = MetricFamily(
            .gauge, "attestgate_upstream_connections", "Connections to the server: busy with requests, or idle.")
        var requests = MetricFamily(
            .gauge, "attestgate_upstream_requests",
            "Requests in flight at the server; with HTTP/2, many on a connection."
        )
        var waiting = MetricFamily(
            .gauge, "attestgate_upstream_waiting", "Requests that wait for a connection to the upstream.")
        var states = MetricFamily(
            .gauge, "attestgate_upstream_server_workers",
            "Workers, by their state of the server; during a reload a worker can have several.")
        for upstream in WorkerSnapshot.Upstream.sum(of: workers.map(\.snapshot)) {
            waiting.add(upstream.waiting, ["upstream": upstream.name])
            for server in upstream.servers {
                requests.add(server.requests, ["upstream": upstream.name, "server": server.name])
                for (state, count) in [("busy", server.busy), ("idle", server.idle)] {
                    connections.add(count, ["upstream": upstream.name, "server": server.name, "state": state])
                }
                for standing in ServerCondition.allCases {
                    states.add(
                        server.standings[standing.rawValue],
                        ["upstream": upstream.name, "server": server.name, "state": standing.name])
                }
            }
        }
        return [connections, requests, waiting, states]
    }

    private var ofServers: [MetricFamily] {
        var requests = MetricFamily(
            .counter, "attestgate_upstream_server_requests_total",
            "Requests sent to the server; a retried request counts at both servers.")
        var failures = MetricFamily(
            .counter, "attestgate_upstream_server_failures_total",
            "Requests that failed at the server, including those that succeeded at another.")
        var ejections = MetricFamily(
            .counter, "attestgate_upstream_server_ejections_total",
            "Ejections of the server by a worker.")
        var checks = MetricFamily(
            .counter, "attestgate_upstream_server_checks_total", "Health checks of the server, by result.")
        for (upstream, servers) in serverCounts {
            for (server, counts) in servers {
                requests.add(counts.requests, ["upstream": upstream, "server": server])
                for kind in UpstreamFailure.Kind.allCases where kind.isServers {
                    failures.add(
                        counts.failures[kind.rawValue], ["upstream": upstream, "server": server, "kind": kind.name])
                }
                ejections.add(counts.ejections, ["upstream": upstream, "server": server])
                for (result, count) in [("passed", counts.checksPassed), ("failed", counts.checksFailed)] {
                    checks.add(count, ["upstream": upstream, "server": server, "result": result])
                }
            }
        }
        return [requests, failures, ejections, checks]
    }

    /// The sums over all workers in the order of names.
    private var serverCounts: [(String, [(String, ServerCounts)])] {
        var sums: [String: [String: ServerCounts]] = [:]
        for (_, snapshot) in workers {
            for (upstream, servers) in snapshot.serverCounts {
                for (server, counts) in servers {
                    sums[upstream, default: [:]][server, default: ServerCounts()].add(counts)
                }
            }
        }
        return sums.sorted { $0.key < $1.key }.map {
            ($0.key, $0.value.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        }
    }
}

/// Metrics of tunnels.
extension WorkerFamilies {
    var tunnels: [MetricFamily] {
        var open = MetricFamily(.gauge, "attestgate_tunnels", "Open WebSockets, by worker.")
        var opened: UInt64 = 0
        var ended = MetricFamily(
            .counter, "attestgate_tunnels_ended_total",
            "Closed WebSockets, by reason.")
        var bytes = MetricFamily(
            .counter, "attestgate_tunnel_bytes_total", "Bytes sent through WebSockets, by direction."
        )
        for (number, snapshot) in workers {
            open.add(snapshot.counts.tunnels.open, ["worker": String(number)])
            opened += snapshot.counts.tunnels.opened
        }
        for end in TunnelEnd.allCases {
            let count = workers.reduce(0) { $0 + $1.snapshot.counts.tunnelEnds[end.rawValue] }
            ended.add(count, ["by": String(describing: end.name)])
        }
        bytes.add(workers.reduce(0) { $0 + $1.snapshot.counts.tunnelBytes.toService }, ["to": "service"])
        bytes.add(workers.reduce(0) { $0 + $1.snapshot.counts.tunnelBytes.toClient }, ["to": "client"])
        let all = MetricFamily(
            .counter, "attestgate_tunnels_opened_total", "Opened WebSockets.", opened)
        return [open, all, ended, bytes]
    }
}

extension Denial {
    /// Whether a TLS handshake can end with it.
    fileprivate var canEndHandshake: Bool {
        switch row.answer {
        case .alert, .fittingAlert: true
        case .close: self == .handshakeTimeout
        case .status, .goAway: false
        }
    }
}
