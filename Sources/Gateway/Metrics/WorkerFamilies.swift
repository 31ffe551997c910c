package import Metrics
internal import Vocabulary

/// What the workers have counted, as metrics: summed, and by worker where one alone may be in trouble.
package struct WorkerFamilies {
    let workers: [(number: Int, snapshot: WorkerSnapshot)]
    private let answered: Set<Int>

    /// - Parameters:
    ///   - latest: the last snapshot of each worker.
    ///   - answered: the workers of which it is of now.
    package init(_ latest: [Int: WorkerSnapshot], answered: Set<Int>) {
        workers = latest.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.answered = answered
    }

    package var all: [MetricFamily] {
        [requests, denials, rateExcesses, withoutRoom, proxyHeaders, handshakes, durations]
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

    private var denials: MetricFamily {
        var family = MetricFamily(
            .counter, "attestgate_denials_total",
            "Denied requests and connections, by denial code.")
        for (code, count) in byCode(\.denials, of: Denial.allCases) { family.add(count, ["code": code]) }
        return family
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

    private var durations: MetricFamily {
        var family = MetricFamily(
            .histogram, "attestgate_request_duration_seconds",
            "Duration of requests, in total and by phase.")
        let phases: [(String, KeyPath<WorkerCounts, LatencyHistogram>)] = [
            ("total", \.total), ("handshake", \.handshake), ("verification", \.verification), ("commit", \.commit),
            ("upstream", \.upstream),
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
            Completed full TLS handshakes: hit if the worker had already verified the client's chain, else miss.
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

    /// Several denials may have one code. In the order of the table.
    private func byCode(
        _ path: KeyPath<WorkerCounts, [UInt64]>, of denials: [Denial]
    ) -> [(code: String, count: UInt64)] {
        var sums: [(code: String, count: UInt64)] = []
        for denial in denials {
            let code = String(describing: denial.row.code)
            let count = workers.reduce(0) { $0 + $1.snapshot.counts[keyPath: path][Int(denial.rawValue)] }
            if let place = sums.firstIndex(where: { $0.code == code }) {
                sums[place].count += count
            } else {
                sums.append((code, count))
            }
        }
        return sums
    }

    /// By name: each worker has its own places, for a reload may reach them with other names before.
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

extension Denial {
    /// Whether it can be how a TLS handshake ends.
    fileprivate var canEndHandshake: Bool {
        switch row.answer {
        case .alert, .fittingAlert: true
        case .close: self == .handshakeTimeout
        case .status, .goAway: false
        }
    }
}
