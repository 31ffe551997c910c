internal import Administration
internal import ArgumentParser

struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the state of the running gateway.",
        discussion: """
            Contacts the gateway through the socket in the section `administration` of the conf file, and shows \
            generation, last reload, registry, devices, workers, upstreams and certificates.

            Exit status: 0 ready, 1 not ready or not reachable.
            """)

    @OptionGroup var gateway: GatewayOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        let socket = try gateway.socket(otherwise: "say --socket")
        let status = try GatewayOptions.explaining(socket) { try AdministrationClient(socketPath: socket).status() }
        print(json ? String(decoding: JSONText.encode(status), as: UTF8.self) : StatusListing.text(of: status))
        if !status.obstacles.isEmpty { throw ExitCode.failure }
    }
}

/// A gateway's status in text for people.
private enum StatusListing {
    static func text(of status: StatusDocument) -> String {
        var rows = [
            ["version", "\(status.version), process \(status.process), started \(status.startedAt)"],
            ["ready", status.obstacles.isEmpty ? "yes" : "no: \(status.obstacles.joined(separator: "; "))"],
            ["generation", String(status.generation)],
        ]
        if let reload = status.lastReload {
            rows.append(["last reload", "\(reload.at) \(reload.reason.map { "failed: \($0)" } ?? "succeeded")"])
        }
        if let upgrade = status.failedUpgrade { rows.append(["failed upgrade", "\(upgrade.at) \(upgrade.reason)"]) }
        if let registry = status.registry {
            let counters = "\(registry.countersCommitted) counters committed, \(registry.countersWaiting) waiting"
            if registry.available {
                rows.append(["registry", "available, \(counters)"])
            } else {
                let since = registry.unavailableSince.map { " since \($0)" } ?? ""
                rows.append(["registry", "NOT AVAILABLE\(since), \(counters)"])
                rows.append(["registry's fault", registry.reason ?? "unknown"])
            }
            rows += details(of: registry)
        }
        rows += status.apps.map { ["app", "\($0.id) (\($0.environment)), counter: \($0.counter)"] }
        rows += status.listeners.map { listener in
            let spoken = status.protocols.first { $0.listener == listener }?.names ?? []
            return ["listener", "\(listener): \(spoken.joined(separator: ", "))"]
        }
        rows += (status.hosts ?? []).map { ["host", "\($0.names.joined(separator: ", ")) at \($0.listener)"] }
        if let federation = status.federation {
            let services = "\(federation.services) service\(federation.services == 1 ? "" : "s")"
            rows.append([
                "federation", "\(federation.listener), \(services), \(federation.described) described",
            ])
        }
        if let enrolment = status.enrolment {
            rows.append(["enrolment", "\(enrolment.listener), admission: \(enrolment.admission)"])
            if let listener = enrolment.devicesListener { rows.append(["enrolled devices", listener]) }
            if let receipts = enrolment.receipts { rows.append(["receipts", text(of: receipts)]) }
            if let list = enrolment.statusList { rows.append(["status list", text(of: list, "entries")]) }
            if let keys = enrolment.issuerKeys { rows.append(["issuer keys", text(of: keys, "keys")]) }
        }
        let workers = status.workers.map { worker in
            [
                String(worker.worker), worker.up ? "up" : "SILENT", String(worker.generation),
                String(worker.retiredGenerations), String(worker.connections),
            ]
        }
        let upstreams = status.upstreams.flatMap { [row($0)] + $0.servers.map(row) }
        let certificates = status.certificates.map { certificate in
            let place = [certificate.listener ?? certificate.upstream, certificate.host].compactMap(\.self).joined(
                separator: " ")
            return [certificate.expiresAt, certificate.role, place, certificate.subject]
        }
        let statements =
            status.revocationLists.map { row($0, "revocation list") }
            + status.ocspResponses.map { row($0, "OCSP response") }
        var tables = [
            rows, [["WORKER", "STATE", "GENERATION", "RETIRED", "CONNECTIONS"]] + workers,
            [["UPSTREAM", "SERVER", "SPEAKS, STATE", "BUSY", "IDLE", "WAITING", "LAST FAILURE"]] + upstreams,
            [["EXPIRES", "ROLE", "LISTENER OR UPSTREAM", "SUBJECT"]] + certificates,
        ]
        let observed = status.observedRoutes ?? []
        if !observed.isEmpty {
            tables.append(
                [["ROUTE", "ENFORCE", "APP", "VERSION", "LAST HOUR, PASSED", "LAST DAY, PASSED", "WOULD BE REFUSED"]]
                    + observed.map(row))
        }
        let policies = status.policies ?? []
        if !policies.isEmpty {
            tables.append(
                [["POLICY", "", "LAST HOUR, REFUSED", "LAST DAY, REFUSED", "REASONS, LAST DAY"]] + policies.map(row))
        }
        if !statements.isEmpty { tables.append([["NEXT UPDATE", "STATE", "KIND", "LISTENER", "OF"]] + statements) }
        return tables.map { Columns.aligned($0).joined(separator: "\n") }.joined(separator: "\n\n")
    }

    private static func details(of registry: StatusDocument.Registry) -> [[String]] {
        var rows: [[String]] = []
        if let devices = registry.devices {
            rows.append(
                ["devices", "\(devices.active) active, \(devices.pending) pending, \(devices.revoked) revoked"])
        }
        if let isComplete = registry.journalComplete {
            rows.append(["revocation journal", isComplete ? "complete" : "NOT COMPLETE: it cannot be written"])
        }
        if let time = registry.epochChangedAt { rows.append(["epoch changed", time]) }
        return rows
    }

    private static func row(_ upstream: StatusDocument.Upstream) -> [String] {
        [
            upstream.name, "", upstream.speaks ?? "", String(upstream.busy), String(upstream.idle),
            String(upstream.waiting), "",
        ]
    }

    private static func row(_ observed: StatusDocument.Observed) -> [String] {
        [
            observed.route, observed.enforce, observed.app ?? "none", observed.version ?? "",
            text(of: observed.lastHour),
            text(of: observed.lastDay), reasons(of: observed.lastDay),
        ]
    }

    private static func row(_ policy: StatusDocument.Policy) -> [String] {
        [
            policy.policy, policy.simulated ? "simulated" : "", text(of: policy.lastHour), text(of: policy.lastDay),
            reasons(of: policy.lastDay),
        ]
    }

    /// The number of decisions, and the share of refusals: `1200, 2.1 %`.
    private static func text(of span: StatusDocument.Policy.Span) -> String {
        guard span.decisions > 0 else { return "0" }
        let unavailable =
            span.unavailable > 0 ? ", \(permille(span.unavailable, span.decisions)) % without a decision" : ""
        return "\(span.decisions), \(permille(span.denied, span.decisions)) %\(unavailable)"
    }

    private static func reasons(of span: StatusDocument.Policy.Span) -> String {
        span.violations.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\($0.key) \(permille($0.value, span.decisions)) %" }.joined(separator: ", ")
    }

    /// The number of requests, and the share that enforcement forwards: `1200, 97.5 %`.
    private static func text(of span: StatusDocument.Observed.Span) -> String {
        guard span.requests > 0 else { return "0" }
        return "\(span.requests), \(permille(span.passed, span.requests)) %"
    }

    private static func reasons(of span: StatusDocument.Observed.Span) -> String {
        span.denials.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\($0.key) \(permille($0.value, span.requests)) %" }.joined(separator: ", ")
    }

    /// A share in percent with one digit after the point, rounded down: 100.0 is all.
    private static func permille(_ part: UInt64, _ whole: UInt64) -> String {
        let share = part.multipliedFullWidth(by: 1000)
        let permille = whole > 0 ? whole.dividingFullWidth(share).quotient : 0
        return "\(permille / 10).\(permille % 10)"
    }

    private static func row(_ server: StatusDocument.Server) -> [String] {
        let failure = server.lastFailure.map { "\($0.at) \($0.reason)" } ?? ""
        return ["", server.name, states(of: server), String(server.busy), String(server.idle), "", failure]
    }

    private static func row(_ statement: StatusDocument.Statement, _ kind: String) -> [String] {
        let place = [statement.listener, statement.host].compactMap(\.self).joined(separator: " ")
        return [statement.nextUpdate, statement.stale ? "STALE" : "fresh", kind, place, statement.of]
    }

    private static func text(of receipts: StatusDocument.Receipts) -> String {
        var parts = ["\(receipts.calls) calls, \(receipts.refreshed) refreshed"]
        parts += receipts.aboveCeiling.sorted { $0.key < $1.key }.map { "\($0.value) above the ceiling of \($0.key)" }
        if receipts.oldestOverdueSeconds > 0 {
            parts.append("the oldest overdue for \(receipts.oldestOverdueSeconds) s")
        }
        if let reason = receipts.paused { parts.append("PAUSED: \(reason)") }
        return parts.joined(separator: ", ")
    }

    private static func text(of content: StatusDocument.FetchedContent, _ unit: String) -> String {
        var parts = [content.state == "current" ? "current" : content.state.uppercased(), "\(content.entries) \(unit)"]
        if let age = content.ageSeconds { parts.append("confirmed \(age) s ago") }
        parts.append(content.source)
        if let failure = content.failure { parts.append("the last fetch failed: \(failure)") }
        return parts.joined(separator: ", ")
    }

    /// Returns one word if all workers agree, else all states.
    private static func states(of server: StatusDocument.Server) -> String {
        let states = server.states.sorted { $0.key < $1.key }
        if states.count == 1, let only = states.first { return only.key }
        return states.map { "\($0.key) in \($0.value)" }.joined(separator: ", ")
    }
}
