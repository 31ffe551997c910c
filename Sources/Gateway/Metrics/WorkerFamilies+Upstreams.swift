internal import Metrics
internal import Upstream

/// What workers have counted of upstreams and their servers.
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

    /// What pools hold now.
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

    /// Of all workers, in the order of names.
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
